#!/usr/bin/env python3
"""Prints the ready pods of a job as hosts, for `ronde run --host-discovery-script`.

It lists the pods with the labels of POD_SELECTOR (app=train,role=worker) by the Kubernetes API, as
the service account of its own pod. A pod counts if it is Ready and not terminating. Where the API
gives no list, it prints one line to stderr and ends with status 1: `ronde run` keeps its hosts.
"""

import http.client
import json
import os
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ACCOUNT = os.environ.get("SERVICE_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS = 5  # `ronde run` kills this script after 10 s


class DiscoveryError(Exception):
    """The pods cannot be listed; its text has the reason and a remedy."""


def setting(name, remedy):
    """A variable that must be set."""
    if not os.environ.get(name):
        raise DiscoveryError(f"{name} is not set; {remedy}")
    return os.environ[name]


def account(name):
    """A file of the service account."""
    try:
        return Path(ACCOUNT, name).read_text().strip()
    except OSError as error:
        raise DiscoveryError(f"{error}; is automountServiceAccountToken false?") from error


def api():
    """Host and port of the API, as kubelet sets them."""
    remedy = "kubelet sets it in pods"
    host = setting("KUBERNETES_SERVICE_HOST", remedy)
    port = setting("KUBERNETES_SERVICE_PORT", remedy)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def opener():
    """Opens URLs of the API: trusts the cluster's authority alone, and uses no proxy."""
    context = ssl.create_default_context(cadata=account("ca.crt"))
    # Authorities of some clusters lack extensions that Python 3.13 asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    return urllib.request.build_opener(*handlers)


def refusal(error, namespace):
    """The reason of an answer that is no list."""
    if error.code == 403:
        return (
            f"the service account may not list pods of namespace {namespace}; its Role needs the "
            'rule {apiGroups: [""], resources: [pods], verbs: [list]}'
        )
    return f"the Kubernetes API answers {error.code} {error.reason}"


def list_pods(namespace, selector):
    """The pods with these labels, as objects of the API."""
    where = api()
    query = urllib.parse.urlencode({"labelSelector": selector})
    url = f"https://{where}/api/v1/namespaces/{namespace}/pods?{query}"
    headers = {"Authorization": f"Bearer {account('token')}"}
    request = urllib.request.Request(url, headers=headers)
    try:
        with opener().open(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)["items"]
    except urllib.error.HTTPError as error:
        raise DiscoveryError(refusal(error, namespace)) from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise DiscoveryError(f"no answer of the Kubernetes API at {where}: {reason}") from error
    except (http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        raise DiscoveryError(f"the Kubernetes API gives no list of pods: {error!r}") from error


def is_ready(pod):
    """True if its readiness probe succeeds, and nobody has deleted it."""
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def host(pod):
    """The pod's name in its headless Service, else its address."""
    spec, metadata = pod["spec"], pod["metadata"]
    if spec.get("hostname") and spec.get("subdomain"):
        return f"{spec['hostname']}.{spec['subdomain']}.{metadata['namespace']}.svc"
    address = pod["status"]["podIP"]
    return f"[{address}]" if ":" in address else address


def main():
    """Prints the hosts; returns the exit status."""
    try:
        selector = setting("POD_SELECTOR", "give the labels of the workers' pods")
        pods = list_pods(account("namespace"), selector)
    except DiscoveryError as error:
        print(f"discover_pods.py: {error}", file=sys.stderr)
        return 1
    for name in sorted(host(pod) for pod in pods if is_ready(pod)):
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
