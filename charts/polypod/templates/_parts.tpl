{{- define "polypod.name" -}}
{{- $long := contains "polypod" .Release.Name | ternary .Release.Name (printf "%s-polypod" .Release.Name) -}}
{{- default $long .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "polypod.selector" -}}
app.kubernetes.io/name: polypod
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "polypod.labels" -}}
{{ include "polypod.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "polypod.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "polypod.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "polypod.name" .) "default") -}}
{{- end -}}

{{- define "polypod.gatewaySecret" -}}
{{- .Values.gateway.token.existingSecret | default (printf "%s-gateway" (include "polypod.name" .)) -}}
{{- end -}}

{{- define "polypod.gatewaySecretKey" -}}
{{- empty .Values.gateway.token.existingSecret | ternary "token" .Values.gateway.token.key -}}
{{- end -}}

{{- define "polypod.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "polypod.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* What nodes, gateway and autoscaler need to join the cluster. */}}
{{- define "polypod.rayToken" -}}
- name: RAY_AUTH_MODE
  value: token
- name: RAY_AUTH_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.ray.token.existingSecret | default (printf "%s-ray" (include "polypod.name" .)) }}
      key: {{ empty .Values.ray.token.existingSecret | ternary "auth_token" .Values.ray.token.key }}
{{- end -}}

{{/* The same on every container with polypod in it; orchestrator/cluster.py says why these. */}}
{{- define "polypod.env" -}}
{{ include "polypod.rayToken" . }}
- name: HOME
  value: /tmp
- name: POLYPOD_HOME
  value: /data/home
- name: RAY_USAGE_STATS_ENABLED
  value: "0"
- name: RAY_ENABLE_UV_RUN_RUNTIME_ENV
  value: "0"
- name: RAY_worker_niceness
  value: "0"
- name: RAY_event_stats
  value: "0"
- name: RAY_enable_metrics_collection
  value: "0"
- name: RAY_task_events_report_interval_ms
  value: "0"
- name: RAY_preload_python_modules
  value: orchestrator.wiring,ray._common.pydantic_compat,ray._private.arrow_serialization
{{- range $name, $value := .Values.ray.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "polypod.keys" -}}
{{- if or .Values.keys.existingSecret .Values.keys.values }}
envFrom:
  - secretRef:
      name: {{ .Values.keys.existingSecret | default (printf "%s-keys" (include "polypod.name" .)) }}
{{- end }}
{{- end -}}

{{- define "polypod.volumes" -}}
- name: settings
  configMap:
    name: {{ include "polypod.name" . }}-settings
- name: tmp
  emptyDir: {}
- name: ray-logs
  emptyDir: {}
- name: shared-mem
  emptyDir: {medium: Memory, sizeLimit: 256Mi}
- name: data
{{- if .Values.volume.enabled }}
  persistentVolumeClaim:
    claimName: {{ .Values.volume.existingClaim | default (printf "%s-data" (include "polypod.name" .)) }}
{{- else }}
  emptyDir: {}
{{- end }}
{{- end -}}

{{- define "polypod.mounts" -}}
- {name: settings, mountPath: /etc/polypod, readOnly: true}
- {name: tmp, mountPath: /tmp}
- {name: ray-logs, mountPath: /tmp/ray}
- {name: shared-mem, mountPath: /dev/shm}
- {name: data, mountPath: /data}
{{- end -}}

{{/* Names the pods of this release's RayCluster: KubeRay sets the label. */}}
{{- define "polypod.nodes" -}}
ray.io/cluster: {{ include "polypod.name" . }}
{{- end -}}

{{/* One container of a Ray node: dict root, name, port of the probe, resources. */}}
{{- define "polypod.rayContainer" -}}
name: {{ .name }}
image: {{ include "polypod.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
env:
  {{- include "polypod.env" .root | nindent 2 }}
{{- with include "polypod.keys" .root }}{{ . }}{{ end }}
resources:
  {{- toYaml .resources | nindent 2 }}
securityContext:
  {{- include "polypod.containerSecurity" .root | nindent 2 }}
volumeMounts:
  {{- include "polypod.mounts" .root | nindent 2 }}
# KubeRay's own probes ask Ray's dashboard, which is not in the image. Ray itself sees to nodes that hang.
startupProbe: {tcpSocket: {port: {{ .port }}}, periodSeconds: 2, failureThreshold: 60}
livenessProbe: {tcpSocket: {port: {{ .port }}}, periodSeconds: 10, failureThreshold: 6}
readinessProbe: {tcpSocket: {port: {{ .port }}}, periodSeconds: 5, failureThreshold: 3}
{{- end -}}

{{/* What the pods of head and workers share: dict root, nodeSelector, tolerations. */}}
{{- define "polypod.podSpec" -}}
serviceAccountName: {{ include "polypod.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "polypod.podSecurity" .root | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* One worker group: dict root, name, replicas, min, max, resources, nodeSelector, tolerations. */}}
{{- define "polypod.workerGroup" -}}
groupName: {{ .name }}
replicas: {{ .replicas }}
minReplicas: {{ .min }}
maxReplicas: {{ .max }}
rayStartParams:
  {{- include "polypod.startParams" . | nindent 2 }}
template:
  metadata:
    labels:
      {{- include "polypod.labels" .root | nindent 6 }}
    annotations:
      {{- include "polypod.checksums" .root | nindent 6 }}
  spec:
    {{- include "polypod.podSpec" . | nindent 4 }}
    terminationGracePeriodSeconds: 30
    containers:
      - {{- include "polypod.rayContainer" (dict "root" .root "name" "ray-worker" "port" 9601 "resources" .resources) | nindent 8 }}
    volumes:
      {{- include "polypod.volumes" .root | nindent 6 }}
{{- end -}}

{{- define "polypod.startParams" -}}
node-manager-port: "9601"
object-manager-port: "9602"
runtime-env-agent-port: "9603"
min-worker-port: "10002"
max-worker-port: "19999"
object-store-memory: "83886080"
{{- end -}}

{{/* A change of these is a change of the nodes' template. */}}
{{- define "polypod.checksums" -}}
polypod/settings: {{ include (print .Template.BasePath "/settings.yaml") . | sha256sum }}
{{- end -}}
