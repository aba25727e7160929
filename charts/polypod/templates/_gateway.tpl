{{/* The container of `polypod serve`, beside Ray in the head's pod. Token and store URL are in no other container. */}}
{{- define "polypod.gateway" -}}
name: gateway
image: {{ include "polypod.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
workingDir: /etc/polypod
command:
  - /bin/sh
  - -c
  - >-
    mkdir -p "$POLYPOD__PROFILES__DEFAULT__WORKSPACE" &&
    exec polypod serve --ray-address "$POD_IP:6379" --host 0.0.0.0 --port {{ .Values.gateway.port }}
env:
  {{- include "polypod.env" . | nindent 2 }}
  - name: POD_IP
    valueFrom: {fieldRef: {fieldPath: status.podIP}}
  - name: POLYPOD__PROFILES__DEFAULT__WORKSPACE
    value: {{ .Values.volume.workspace | quote }}
  - name: POLYPOD__MEMORY__ROOT
    value: /data/memory
  - name: POLYPOD__GATEWAY__TOKEN
    valueFrom:
      secretKeyRef:
        name: {{ include "polypod.gatewaySecret" . }}
        key: {{ include "polypod.gatewaySecretKey" . }}
  {{- if eq .Values.store.kind "postgresql" }}
  - name: POLYPOD__STORE__URL
    valueFrom:
      secretKeyRef:
        name: {{ .Values.store.postgresql.existingSecret }}
        key: {{ .Values.store.postgresql.key }}
  {{- end }}
  {{- if .Values.test.enabled }}
  - name: POLYPOD__MODELS__HELM_TEST__PROVIDER
    value: scripted
  - name: POLYPOD__MODELS__HELM_TEST__SCRIPT
    value: /etc/polypod/helm-test.jsonl
  {{- end }}
{{- with include "polypod.keys" . }}{{ . }}{{ end }}
ports:
  - name: gateway
    containerPort: {{ .Values.gateway.port }}
resources:
  {{- toYaml .Values.gateway.resources | nindent 2 }}
securityContext:
  {{- include "polypod.containerSecurity" . | nindent 2 }}
volumeMounts:
  {{- include "polypod.mounts" . | nindent 2 }}
startupProbe: {httpGet: {path: /healthz, port: gateway}, periodSeconds: 2, failureThreshold: 90}
livenessProbe: {httpGet: {path: /healthz, port: gateway}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 3}
readinessProbe: {httpGet: {path: /readyz, port: gateway}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3}
{{- end -}}
