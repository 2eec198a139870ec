#!/usr/bin/env python3
"""Checks manifests of `zeppelin k8s`: a schema of what the MPI operator's API (v2beta1) and the parts of a pod that we use take, with every other field refused; the operator's own
rules, of which it tells nobody; Pod Security "restricted"; and Kubernetes' expansion of $(NAME).
usage: manifest.py check [--root] FILE...        exit status 1 and a line for each offence
       manifest.py crd CRD.yaml FILE...          against the operator's own schema, unknown fields refused
       manifest.py get FILE EXPRESSION           a Python expression of m (manifest), launcher, worker (pod specs), expand (the kubelet's)
FILE is YAML or JSON; - is standard input."""
import json, re, sys

import jsonschema, yaml

DNS1035 = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
OBJECT = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?[0-9]+)?$"
IMAGE = r"^[^\s]+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$"


def obj(required=(), **fields):
    return {"type": "object", "additionalProperties": False, "properties": fields, "required": list(required)}


text, number, flag = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
label_value = {"type": "string", "pattern": r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"}
key = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
labels = {"type": "object", "additionalProperties": label_value, "propertyNames": {"pattern": key}}
notes = {"type": "object", "additionalProperties": text, "propertyNames": {"pattern": key}}
quantity = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": QUANTITY}]}
resources = {"type": "object", "additionalProperties": quantity, "propertyNames": {"pattern": key}}
name = {"type": "string", "pattern": OBJECT}


def many(item, least=1):
    return {"type": "array", "items": item, "minItems": least}


selector = obj(["matchLabels"], matchLabels=labels)
term = obj(["topologyKey", "labelSelector"], topologyKey=text, labelSelector=selector)
preferred = many(obj(["weight", "podAffinityTerm"], weight={"type": "integer", "minimum": 1, "maximum": 100}, podAffinityTerm=term))
affinity = obj(preferredDuringSchedulingIgnoredDuringExecution=preferred, requiredDuringSchedulingIgnoredDuringExecution=many(term))
env = {"type": "object", "additionalProperties": False, "required": ["name"],
       "properties": {"name": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, "value": text,
                      "valueFrom": {"oneOf": [obj(["fieldRef"], fieldRef=obj(["fieldPath"], fieldPath={"enum": ["spec.nodeName", "metadata.name", "status.podIP"]})),
                                              obj(["secretKeyRef"], secretKeyRef=obj(["name", "key"], name=name, key={"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"}))]}},
       "oneOf": [{"required": ["value"]}, {"required": ["valueFrom"]}]}
port = {"type": "integer", "minimum": 1, "maximum": 65535}
capabilities = obj(add=many(text), drop=many(text))
seccomp = obj(["type"], type={"enum": ["RuntimeDefault", "Localhost", "Unconfined"]})
container = obj(["name", "image", "command"], name={"type": "string", "pattern": DNS1035}, image={"type": "string", "pattern": IMAGE}, imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
                command=many(text), args=many(text), env=many(env), ports=many(obj(["containerPort"], name={"type": "string", "maxLength": 15}, containerPort=port)),
                securityContext=obj(allowPrivilegeEscalation=flag, capabilities=capabilities, runAsUser=number), resources=obj(requests=resources, limits=resources),
                volumeMounts=many(obj(["name", "mountPath"], name=text, mountPath={"type": "string", "pattern": "^/[^:]*$"}, readOnly=flag)),
                readinessProbe=obj(["tcpSocket"], tcpSocket=obj(["port"], port=port), initialDelaySeconds=number, periodSeconds=number))
volume = {"type": "object", "required": ["name"], "minProperties": 2, "maxProperties": 2, "additionalProperties": False,
          "properties": {"name": {"type": "string", "pattern": DNS1035, "not": {"enum": ["ssh-auth", "mpi-job-config"]}}, "persistentVolumeClaim": obj(["claimName"], claimName=name),
                         "configMap": obj(["name"], name=name), "secret": obj(["secretName"], secretName=name), "emptyDir": obj(medium={"enum": ["Memory", ""]}, sizeLimit=quantity),
                         "hostPath": obj(["path"], path=text)}}
spread = obj(["maxSkew", "topologyKey", "whenUnsatisfiable"], maxSkew={"type": "integer", "minimum": 1}, topologyKey=text, whenUnsatisfiable={"enum": ["DoNotSchedule", "ScheduleAnyway"]},
             labelSelector=selector)
toleration = obj(["operator"], key=text, operator={"enum": ["Exists", "Equal"]}, value=label_value, effect={"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]})
pod = obj(["containers"], serviceAccountName=name, automountServiceAccountToken=flag, enableServiceLinks=flag, terminationGracePeriodSeconds=number,
          securityContext=obj(runAsNonRoot=flag, runAsUser=number, runAsGroup=number, fsGroup=number, fsGroupChangePolicy={"enum": ["OnRootMismatch", "Always"]}, seccompProfile=seccomp),
          imagePullSecrets=many(obj(["name"], name=name)), schedulerName=text, priorityClassName=name, affinity=obj(podAffinity=affinity, podAntiAffinity=affinity),
          topologySpreadConstraints=many(spread), nodeSelector=labels, tolerations=many(toleration), containers=many(container), volumes=many(volume))


def replica(count):
    # Always and ExitCode are constants of the operator, which it then refuses
    return obj(["replicas", "restartPolicy", "template"], replicas=count, restartPolicy={"enum": ["Never", "OnFailure"]},
               template=obj(["spec"], metadata=obj(labels=labels, annotations=notes), spec=pod))


SCHEMA = obj(["apiVersion", "kind", "metadata", "spec"], apiVersion={"const": "kubeflow.org/v2beta1"}, kind={"const": "MPIJob"},
             metadata=obj(["name"], name={"type": "string", "pattern": DNS1035, "maxLength": 47}, namespace={"type": "string", "pattern": DNS1035}, labels=labels, annotations=notes),
             spec=obj(["mpiReplicaSpecs", "runPolicy", "launcherCreationPolicy"], slotsPerWorker={"type": "integer", "minimum": 1}, runLauncherAsWorker=flag, sshAuthMountPath={"type": "string", "pattern": "^/"},
                      launcherCreationPolicy={"enum": ["AtStartup", "WaitForWorkersReady"]}, mpiImplementation={"enum": ["OpenMPI", "Intel", "MPICH"]},
                      # the schema of the operator takes any key here and ignores it
                      mpiReplicaSpecs=obj(["Launcher", "Worker"], Launcher=replica({"const": 1}), Worker=replica({"type": "integer", "minimum": 1})),
                      # without cleanPodPolicy workers keep their GPUs after the end
                      runPolicy=obj(["cleanPodPolicy"], cleanPodPolicy={"enum": ["None", "Running", "All"]}, ttlSecondsAfterFinished=number, activeDeadlineSeconds=number, backoffLimit=number,
                                    suspend=flag, managedBy={"enum": ["kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue"]},
                                    schedulingPolicy=obj(minAvailable={"type": "integer", "minimum": 1}, queue=text, minResources=resources, priorityClass=name, scheduleTimeoutSeconds=number))))


def expand(value, variables):
    """What the kubelet makes of command, args and env: $(NAME) is replaced if it is defined, $$ is $."""
    out, i = "", 0
    while i < len(value):
        if value[i] == "$" and i + 1 < len(value):
            if value[i + 1] == "$":
                out, i = out + "$", i + 2
                continue
            close = value.find(")", i) if value[i + 1] == "(" else -1
            if close > 0:
                inner = value[i + 2:close]
                out, i = out + (variables[inner] if inner in variables else value[i:close + 1]), close + 1
                continue
        out, i = out + value[i], i + 1
    return out


def rules(m):
    """What the controller checks itself: it then makes an event and does nothing."""
    spec, job = m["spec"], m["metadata"]["name"]
    workers = spec["mpiReplicaSpecs"]["Worker"]["replicas"]
    if not re.match(DNS1035, "%s-worker-%d" % (job, workers - 1)):
        yield "the name of the last worker is no DNS-1035 label"
    if "suspend" in spec["runPolicy"]:
        yield "runPolicy.suspend is Kueue's"
    least = spec["runPolicy"].get("schedulingPolicy", {}).get("minAvailable", workers + 1)
    if least > workers and spec["launcherCreationPolicy"] == "WaitForWorkersReady":
        yield "a gang that waits for the launcher, which waits for the gang"
    for role, r in spec["mpiReplicaSpecs"].items():
        p = r["template"]["spec"]
        named = {v["name"] for v in p.get("volumes", [])}
        for c in p["containers"]:
            mounts = c.get("volumeMounts", [])
            if {v["name"] for v in mounts} - named:
                yield "%s: a mount without a volume" % role
            if len({v["mountPath"] for v in mounts}) < len(mounts):
                yield "%s: a path is mounted twice" % role
            for k, v in c["resources"].get("limits", {}).items():
                if "/" in k and c["resources"].get("requests", {}).get(k, v) != v:
                    yield "%s: %s is asked for and limited unequally" % (role, k)
        if "restartPolicy" in p:
            yield "%s: the template's restartPolicy is overridden" % role


def restricted(m):
    """Pod Security Standards, level restricted."""
    for role, r in m["spec"]["mpiReplicaSpecs"].items():
        p = r["template"]["spec"]
        s = p.get("securityContext", {})
        if not s.get("runAsNonRoot") or s.get("runAsUser", 1) == 0:
            yield "%s: may run as root" % role
        if s.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield "%s: no seccomp profile" % role
        if any(p.get(k) for k in ("hostNetwork", "hostPID", "hostIPC")):
            yield "%s: the host's namespaces" % role
        for v in p.get("volumes", []):
            if not set(v) & {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}:
                yield "%s: a volume of a kind that is not allowed" % role
        for c in p["containers"]:
            s = c.get("securityContext", {})
            if s.get("allowPrivilegeEscalation") is not False or s.get("privileged"):
                yield "%s: privileges may be gained" % role
            if "ALL" not in s.get("capabilities", {}).get("drop", []) or set(s.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"}:
                yield "%s: capabilities" % role
            if any("hostPort" in q for q in c.get("ports", [])):
                yield "%s: a port of the host" % role


def strict(node):
    """The operator's schema with unknown fields refused and without what JSON schema does not have."""
    if isinstance(node, list):
        return [strict(n) for n in node]
    if not isinstance(node, dict):
        return node
    out = {k: strict(v) for k, v in node.items() if not k.startswith("x-kubernetes-")}
    if node.get("x-kubernetes-int-or-string"):
        out.pop("anyOf", None)
        out["type"] = ["integer", "string"]
    if isinstance(out.get("properties"), dict) and "additionalProperties" not in out and not node.get("x-kubernetes-preserve-unknown-fields"):
        out["additionalProperties"] = False
    return out


def load(path):
    with (sys.stdin if path == "-" else open(path, encoding="utf-8")) as f:
        return yaml.safe_load(f)


def main():
    what, args = sys.argv[1], sys.argv[2:]
    if what == "get":
        m = load(args[0])
        r = m["spec"]["mpiReplicaSpecs"]
        value = eval(args[1], {"m": m, "launcher": r["Launcher"]["template"]["spec"], "worker": r["Worker"]["template"]["spec"], "expand": expand, "yaml": yaml})
        print(value if isinstance(value, str) else json.dumps(value))
        return 0
    root = "--root" in args
    args = [a for a in args if a != "--root"]
    if what == "crd":
        crd = load(args.pop(0))
        schema = strict(next(v for v in crd["spec"]["versions"] if v["name"] == "v2beta1")["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        replica_spec = schema["properties"]["spec"]["properties"]["mpiReplicaSpecs"]["additionalProperties"]
        replica_spec["properties"]["template"]["properties"]["metadata"] = {"type": "object"}
    else:
        schema = SCHEMA
    bad = 0
    for path in args:
        m = load(path)
        found = ["%s: %s" % ("/".join(str(p) for p in e.absolute_path), e.message[:300]) for e in jsonschema.Draft7Validator(schema).iter_errors(m)]
        if not found and what == "check":
            found = list(rules(m)) + ([] if root else list(restricted(m)))
        for line in found:
            print("%s: %s" % (path, line))
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
