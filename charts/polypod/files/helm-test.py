"""Runs a tree of three Pods on the scripted model through a gateway: `python helm-test.py http://HOST:PORT [MODEL]`.

The token is in POLYPOD_TOKEN. Exit code 0: both children ran a tool and told, and the parent ended by itself.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

READY_LIMIT = 120.0
RUN_LIMIT = 180.0


def ask(url, body=None):
    headers = {"Authorization": "Bearer " + os.environ.get("POLYPOD_TOKEN", ""), "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return json.load(answer)


def wait_ready(gateway):
    until = time.monotonic() + READY_LIMIT
    while True:
        try:
            return ask(gateway + "/readyz")
        except (OSError, ValueError) as error:
            if time.monotonic() > until:
                sys.exit(f"the gateway at {gateway} is not ready: {error}")
            time.sleep(1)


def result_of(gateway, pod):
    """Of the run that comes to an end, once the Pod waits for no child any more."""
    until = time.monotonic() + RUN_LIMIT
    while time.monotonic() < until:
        result = ask(f"{gateway}/v1/pods/{pod}/result?wait=20")
        if result.get("outcome") is not None:
            return result
    sys.exit(f"Pod {pod} did not end within {RUN_LIMIT:g} s")


def main(gateway, model="helm_test"):
    wait_ready(gateway)
    pod = ask(gateway + "/v1/pods", {"prompt": "Count with two children.", "name": "helm-test", "model": model})["id"]
    try:
        root = result_of(gateway, pod)
        children = ask(f"{gateway}/v1/pods?parent={pod}")["pods"]
        found = sorted((child["name"], result_of(gateway, child["id"])["text"]) for child in children)
        nodes = ask(gateway + "/readyz").get("nodes")
    finally:
        ask(f"{gateway}/v1/pods/{pod}/stop", {})
    print(f"root: {root['outcome']}: {root['text']}; children: {found}; nodes: {nodes}")
    wanted = [("helm-test-one", "one"), ("helm-test-two", "two")]
    if (root["outcome"], found) != ("finished", wanted):
        sys.exit("this is not what the tree should have done")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.url}: {error.code} {error.read().decode(errors='replace')}")
