#!/usr/bin/env python3
"""Checks what lies in deploy/ without a cluster, a Docker daemon or systemd as process 1.

  deploy/check.py                  structure: YAML, references, ports, flags, units, scripts
  deploy/check.py --quick          the same without shellcheck and systemd-analyze
  deploy/check.py --run BINARY     starts the command lines of the units with that `loopwright`

Prints one line for each mistake and exits with 1 if there is one. Checks whose tool is not installed
are skipped and said to be.
"""
import argparse
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
GRPC, HTTP, USER = 7070, 7071, 10001
IMAGE = "loopwright:latest"
FLAGS = {  # the contract: flag -> takes a value
    "serve": {"--listen", "--http", "--db", "--config", "--tls-ca", "--tls-cert", "--tls-key", "--backups"},
    "agent": {"--server", "--device", "--tls-ca", "--tls-cert", "--tls-key", "--state", "--name", "--isolation"},
}
NEEDED = {"serve": {"--listen", "--db"}, "agent": {"--server"}}
TLS = {"--tls-ca", "--tls-cert", "--tls-key"}
mistakes = []


def expect(condition, message):
    if not condition:
        mistakes.append(message)
    return condition


def check_command(words, where):
    """The words behind `loopwright`: a command of the contract, flags known, TLS wherever others reach."""
    verb, options = words[0], {}
    if not expect(verb in FLAGS, f"{where}: no command '{verb}'"):
        return {}
    rest = list(words[1:])
    while rest:
        flag = rest.pop(0)
        if not expect(flag in FLAGS[verb], f"{where}: {verb} has no '{flag}'"):
            continue
        if not expect(bool(rest) and not str(rest[0]).startswith("--"), f"{where}: {flag} has no value"):
            continue
        options[flag] = str(rest.pop(0))
    for flag in NEEDED[verb] - set(options):
        expect(False, f"{where}: {flag} is missing")
    given = TLS & set(options)
    expect(given in (set(), TLS), f"{where}: only some of --tls-*: {sorted(given)}")
    address = options.get("--listen", options.get("--server", ""))
    if not address.startswith(("127.", "[::1]", "localhost", "unix:")):
        expect(given == TLS, f"{where}: {address} without TLS")
    expect(address.endswith(f":{GRPC}"), f"{where}: {address} is not on port {GRPC}")
    http = options.get("--http", f"127.0.0.1:{HTTP}")
    expect(http == f"127.0.0.1:{HTTP}", f"{where}: --http {http} is not the loopback's {HTTP}")
    database = options.get("--db", "")
    expect(not re.search(r"://[^/@]*:[^/@]*@", database), f"{where}: a password in --db")
    remote = re.match(r"postgres(ql)?://([^/@]*@)?[^/?]", database)
    expect(not remote or "sslmode=verify-full&sslrootcert=" in database, f"{where}: --db without verified TLS")
    if verb == "agent":
        expect(options.get("--isolation") in ("filter", "namespaces"), f"{where}: candidates are not shut in")
    return options


def documents(path):
    try:
        return [one for one in yaml.safe_load_all(path.read_text()) if one is not None]
    except yaml.YAMLError as error:
        expect(False, f"{path.name}: {error}")
        return []


# --- compose -------------------------------------------------------------------------------------

def check_compose():
    (file,) = documents(HERE / "compose.yaml") or ({},)
    services = file.get("services", {})
    expect({"serve", "postgres", "certificates", "board-1", "board-2"} <= set(services),
           "compose.yaml: a service is missing")
    mounted = {}
    for name, service in services.items():
        where = f"compose.yaml: {name}"
        own = service.get("image") == IMAGE
        expect(own or service.get("image", "").startswith("postgres:15"), f"{where}: another image")
        for other in service.get("depends_on", {}):
            expect(other in services, f"{where}: depends on '{other}', which is not there")
        for network in service.get("networks", []):
            expect(network in file.get("networks", {}), f"{where}: no network '{network}'")
        for secret in service.get("secrets", []):
            expect(secret in file.get("secrets", {}), f"{where}: no secret '{secret}'")
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            expect(source.startswith(".") or source in file["volumes"], f"{where}: no volume '{source}'")
            mounted.setdefault(source, set()).add(name)
            if target == "/tls":
                expect(volume.endswith(":ro"), f"{where}: {target} is writable")
        for variable, value in (service.get("environment") or {}).items():
            expect("PASSWORD" not in variable or variable.endswith("_FILE"), f"{where}: a secret in {variable}")
        if own and name != "certificates":
            expect(service.get("read_only") is True and service.get("cap_drop") == ["ALL"],
                   f"{where}: not hardened")
            options = check_command(service["command"], where)
            if service["command"][0] == "agent":
                expect(options.get("--name") == name, f"{where}: its name is {options.get('--name')}")
                expect(options.get("--server") == f"serve:{GRPC}", f"{where}: serves no such server")
                expect("ports" not in service, f"{where}: an agent needs no port")
                expect("mem_limit" in service, f"{where}: no memory limit")
    for volume, users in mounted.items():
        if volume.startswith(("tls-", "state-")):
            expect(len(users - {"certificates"}) <= 1, f"compose.yaml: {volume} is shared by {sorted(users)}")
    expect(mounted.get("tls-ca") == {"certificates"}, "compose.yaml: the authority's key is mounted elsewhere")
    script = services.get("certificates", {}).get("command", [""])[0]
    for name in ("serve", "postgres", "board-1", "board-2"):
        expect(re.search(rf"ensure ca (server|agent) {name} ", script), f"compose.yaml: {name} gets no certificate")


# --- Kubernetes ----------------------------------------------------------------------------------

REQUIRED = {
    "Namespace": [], "Secret": ["type"], "Deployment": ["spec.replicas", "spec.selector", "spec.template"],
    "DaemonSet": ["spec.selector", "spec.template"], "Service": ["spec.selector", "spec.ports"],
    "PodDisruptionBudget": ["spec.selector"], "NetworkPolicy": ["spec.podSelector", "spec.policyTypes"],
}
VERSIONS = {
    "Namespace": "v1", "Secret": "v1", "Service": "v1", "Deployment": "apps/v1", "DaemonSet": "apps/v1",
    "PodDisruptionBudget": "policy/v1", "NetworkPolicy": "networking.k8s.io/v1",
}


def field(value, path):
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def check_pod(item, where):
    template = item["spec"]["template"]
    labels = item["spec"]["selector"]["matchLabels"]
    expect(labels.items() <= template["metadata"]["labels"].items(), f"{where}: the selector misses its pods")
    pod = template["spec"]
    context = pod.get("securityContext", {})
    expect(context.get("runAsNonRoot") is True and context.get("runAsUser") == USER, f"{where}: not user {USER}")
    expect(pod.get("automountServiceAccountToken") is False, f"{where}: holds a token of the cluster")
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        expect(container["image"] == IMAGE, f"{where}: image {container['image']}")
        own = container.get("securityContext", {})
        expect(own.get("allowPrivilegeEscalation") is False and own.get("readOnlyRootFilesystem") is True and
               own.get("capabilities") == {"drop": ["ALL"]}, f"{where}: not hardened")
        expect(field(container, "resources.requests.cpu") and field(container, "resources.limits.memory"),
               f"{where}: no resources")
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        expect(set(mounts) == volumes, f"{where}: volumes {sorted(set(mounts) ^ volumes)} are not on both sides")
        expect(mounts["tls"].get("readOnly") is True and "subPath" not in mounts["tls"], f"{where}: /tls")
        options = check_command(container["args"], where)
        for flag in TLS:
            expect(options.get(flag, "").startswith(mounts["tls"]["mountPath"] + "/"), f"{where}: {flag} is not mounted")
        for name in re.findall(r"\$\((\w+)\)", " ".join(container["args"])):
            expect(name in {entry["name"] for entry in container["env"]}, f"{where}: no variable {name}")
    return pod


def check_kubernetes():
    items = {}
    for path in sorted((HERE / "kubernetes").glob("*.yaml")):
        for item in documents(path):
            if item.get("kind") == "Kustomization":
                for resource in item["resources"]:
                    expect((path.parent / resource).exists(), f"kustomization: no {resource}")
                expect("secrets.yaml" not in item["resources"], "kustomization: would overwrite Secrets")
                continue
            kind, name = item.get("kind"), field(item, "metadata.name")
            where = f"{path.name}: {kind} {name}"
            if not expect(kind in REQUIRED and item.get("apiVersion") == VERSIONS.get(kind), f"{where}: kind or version"):
                continue
            for needed in REQUIRED[kind]:
                expect(field(item, needed) is not None, f"{where}: {needed} is missing")
            expect((kind, name, field(item, "metadata.namespace")) not in items, f"{where}: twice")
            items[kind, name, field(item, "metadata.namespace")] = item
    namespaces = {name for kind, name, _ in items if kind == "Namespace"}
    for kind, name, namespace in items:
        expect(kind == "Namespace" or namespace in namespaces, f"{kind} {name}: no namespace {namespace}")
    expect({kind for kind, _, _ in items} == set(REQUIRED), "kubernetes/: a kind of object is missing")
    check_together(items)


def check_together(items):
    daemon = items["Deployment", "loopwright", "loopwright"]
    agents = items["DaemonSet", "loopwright-agent", "loopwright-agents"]
    pod = check_pod(daemon, "Deployment")
    check_pod(agents, "DaemonSet")
    labels = daemon["spec"]["template"]["metadata"]["labels"]
    service = items["Service", "loopwright", "loopwright"]
    expect(service["spec"]["selector"].items() <= labels.items(), "Service: selects no pod")
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    (port,) = service["spec"]["ports"]
    expect(port["port"] == GRPC and ports.get(port["targetPort"]) == GRPC, "Service: another port")
    budget = items["PodDisruptionBudget", "loopwright", "loopwright"]["spec"]
    expect(budget["selector"]["matchLabels"].items() <= labels.items(), "PodDisruptionBudget: selects no pod")
    expect(budget["minAvailable"] < daemon["spec"]["replicas"], "PodDisruptionBudget: no pod may ever leave")
    for name, path in (("startupProbe", "healthz"), ("livenessProbe", "healthz"), ("readinessProbe", "readyz?reads")):
        expect(field(pod["containers"][0], f"{name}.exec.command") == ["/usr/local/bin/probe", path], f"Deployment: {name}")
    secrets = {name: set(item["stringData"]) for (kind, name, _), item in items.items() if kind == "Secret"}
    for volume in pod["volumes"]:
        expect("secret" not in volume or volume["secret"]["secretName"] in secrets, f"Deployment: {volume}")
    for variable in pod["containers"][0]["env"]:
        reference = field(variable, "valueFrom.secretKeyRef")
        expect(reference and reference["key"] in secrets.get(reference["name"], ()), f"Deployment: {variable['name']}")
    for (kind, name, _), item in items.items():
        if kind == "Secret":
            expect(not any(item["stringData"].values()), f"Secret {name}: holds something")
    server = agents["spec"]["template"]["spec"]["containers"][0]["args"]
    expect(f"loopwright.loopwright.svc:{GRPC}" in server, "DaemonSet: another server than the Service")
    policy = items["NetworkPolicy", "loopwright-daemon", "loopwright"]["spec"]
    allowed = [source["podSelector"]["matchLabels"] for rule in policy["ingress"] for source in rule["from"] if "podSelector" in source]
    expect(any(one.items() <= agents["spec"]["template"]["metadata"]["labels"].items() for one in allowed), "NetworkPolicy: keeps the agents out")
    expect(all(rule.get("ports") for rule in policy["ingress"] + policy["egress"]), "NetworkPolicy: a rule for every port")


# --- Dockerfile, scripts, units --------------------------------------------------------------------

def check_dockerfile():
    text = (HERE / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    words = [word.upper() for word, *_ in lines]
    expect(words.count("FROM") == 2, "Dockerfile: not two stages")
    last = {word.upper(): rest for word, rest in lines[len(words) - words[::-1].index("FROM"):]}
    expect(last.get("USER", "").startswith(str(USER)), f"Dockerfile: not user {USER}")
    expect("HEALTHCHECK" in last and "EXPOSE" in last and last["EXPOSE"] == str(GRPC), "Dockerfile: health or port")
    check_command(yaml.safe_load(last["CMD"]), "Dockerfile: CMD")
    for source in re.findall(r"COPY (?!--from)([^\n]*)", text):
        for file in source.split()[:-1]:
            expect((HERE.parent / file).exists(), f"Dockerfile: no {file}")
    expect(not re.search(r"(?i)(password|secret)\s*=", text), "Dockerfile: a secret")


def check_scripts(quick):
    scripts = [HERE / name for name in ("certificates", "probe", "entrypoint", "sbom")]
    for script in scripts:
        expect(script.stat().st_mode & 0o111 == 0o111, f"{script.name}: not executable")
    if quick:
        return
    if not shutil.which("shellcheck"):
        print("[SKIP] shellcheck is not installed")
        return
    result = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True)
    expect(result.returncode == 0, result.stdout)


def unit(path):
    """Settings of a unit file: name -> its values in order."""
    settings = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if "=" in line and not line.startswith(("#", ";", "[")):
            name, value = line.split("=", 1)
            settings.setdefault(name.strip(), []).append(value.strip())
    return settings


def command_of(settings, instance="", overrides=None):
    """ExecStart as systemd would run it: ${X} is one word, $X is split."""
    environment = {}
    for line in settings.get("Environment", []):
        environment.update(pair.split("=", 1) for pair in shlex.split(line))
    environment.update(overrides or {})
    words = []
    for word in settings["ExecStart"][-1].replace("%i", instance).split():
        if re.fullmatch(r"\$\w+", word):
            words += environment[word[1:]].split()
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda match: environment[match[1]], word))
    return words


UNITS = {"loopwright-serve.service": ("", 2.0), "loopwright-agent@.service": ("board", 3.5)}


def check_units(quick):
    for name, (instance, exposure) in UNITS.items():
        settings = unit(HERE / "systemd" / name)
        command = command_of(settings, instance)
        expect(command[0] == "/usr/bin/loopwright", f"{name}: runs {command[0]}")
        check_command(command[1:], name)
        for setting, value in (("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("User", "loopwright"),
                               ("CapabilityBoundingSet", ""), ("Restart", "always")):
            expect(settings.get(setting) == [value], f"{name}: {setting}={settings.get(setting)}")
        # 1 is a wrong request (src/cli/exit.h); all else may mend, so nothing else ends the attempts.
        expect(settings.get("RestartPreventExitStatus") == ["1"] and settings.get("StartLimitIntervalSec") == ["0"],
               f"{name}: gives up restarting where it should not")
        expect({"MemoryMax", "MemoryHigh"} & set(settings), f"{name}: no memory limit")
        expect("LoadCredential" not in settings, f"{name}: LoadCredential would hide renewed certificates")
        if quick:
            continue
        if not shutil.which("systemd-analyze"):
            print("[SKIP] systemd-analyze is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            # `verify` wants the program to be there.
            copy = pathlib.Path(folder) / name.replace("@", f"@{instance}")
            copy.write_text((HERE / "systemd" / name).read_text().replace("/usr/bin/loopwright", "/bin/true"))
            result = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
            expect(result.returncode == 0 and not result.stderr.strip(), f"{name}: {result.stderr}")
            result = subprocess.run(["systemd-analyze", "security", "--offline=true", copy], capture_output=True, text=True)
            found = re.search(r"exposure level for \S+ (\d+\.\d+)", result.stdout)
            if not found:
                print(f"[SKIP] {name}: systemd-analyze security: {result.stderr.strip()}")
            else:
                expect(float(found[1]) <= exposure, f"{name}: exposure {found[1]} above {exposure}")


# --- the units' command lines, really run -------------------------------------------------------------

def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def probe(path, port):
    return subprocess.run([HERE / "probe", path, str(port)], capture_output=True).returncode == 0


def eventually(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def run_units(binary, isolation):
    with tempfile.TemporaryDirectory() as folder:
        grpc, http, running = free_port(), free_port(), []
        places = {"LISTEN": f"127.0.0.1:{grpc}", "SERVER": f"127.0.0.1:{grpc}", "HTTP": f"127.0.0.1:{http}",
                  "DB": f"{folder}/loopwright.db", "DEVICES": "--device cpu:1"}
        try:
            for name, (instance, _) in UNITS.items():
                command = command_of(unit(HERE / "systemd" / name), instance, places)
                command = [binary] + [word.replace("/var/lib", folder) for word in command[1:]]
                if isolation and "--isolation" in command:
                    command[command.index("--isolation") + 1] = isolation
                for word in command:
                    if word.startswith(f"{folder}/loopwright") and not word.endswith(".db"):
                        pathlib.Path(word).mkdir(parents=True, exist_ok=True)
                with open(f"{folder}/{name}.log", "w") as log:
                    running.append((name, subprocess.Popen(command, stdout=log, stderr=log)))
                if "serve" in name:
                    expect(eventually(lambda: probe("healthz", http) and probe("readyz", http), 15), f"{name}: not ready")
            time.sleep(2)
            for name, process in running:
                expect(process.poll() is None, f"{name}: ended with {process.returncode}")
            for name, process in reversed(running):
                process.send_signal(signal.SIGTERM)
                expect(eventually(lambda: process.poll() is not None, 20), f"{name}: does not stop")
                expect(process.poll() == 0, f"{name}: SIGTERM ends it with {process.poll()}")
        finally:
            for _, process in running:
                if process.poll() is None:
                    process.kill()
            if mistakes:
                for name, _ in running:
                    print(f"--- {name}\n{pathlib.Path(folder, name + '.log').read_text()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", metavar="BINARY")
    parser.add_argument("--isolation", help="in place of the units' own, where BINARY has sanitizers")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if arguments.run:
        run_units(arguments.run, arguments.isolation)
    else:
        for check in (check_compose, check_kubernetes, check_dockerfile):
            check()
        check_scripts(arguments.quick)
        check_units(arguments.quick)
    for mistake in mistakes:
        print(f"deploy: {mistake}")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
