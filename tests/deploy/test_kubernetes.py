"""The manifests, built by a real kustomize and held against the published schemas.

No cluster takes part.
"""

import importlib
import shutil

import bcrypt
import kubernetes_validate
import pytest
import yaml

import monitor
from deploy.shipped import DEPLOY, guide
from monitor.settings.loader import load_settings
from servers.kustomize import kustomizer

pytestmark = pytest.mark.integration
RELEASE = "1.37"
PLAIN = ("base", "overlays/single", "overlays/ha")
ENCRYPTED = ("base with TLS", "overlays/ha with TLS")
GROUP = "monitoring.coreos.com/v1"
DATABASE = "postgresql+psycopg://rankwatch:canary@postgres/rankwatch"


@pytest.fixture(scope="module")
def kustomize(tmp_path_factory):
    return kustomizer(tmp_path_factory.mktemp("kubectl"))


@pytest.fixture(scope="module")
def built(kustomize, tmp_path_factory):
    """What each folder builds, and what an overlay with TLS builds of it."""
    objects = {folder: kustomize(DEPLOY / "kubernetes" / folder) for folder in PLAIN}
    for name in ENCRYPTED:
        place = tmp_path_factory.mktemp("encrypted")
        shutil.copytree(DEPLOY / "kubernetes", place / "given")
        overlay = {
            "namespace": "rankwatch",
            "resources": [f"given/{name.removesuffix(' with TLS')}"],
            "components": ["given/components/operator", "given/components/tls"],
        }
        (place / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        objects[name] = kustomize(place)
    return objects


@pytest.fixture(params=PLAIN)
def objects(built, request):
    return built[request.param]


@pytest.fixture(params=ENCRYPTED)
def encrypted(built, request):
    return built[request.param]


def _faults(one):
    """What is wrong with an object, unknown fields included."""
    if one["apiVersion"] == GROUP:
        # Four seconds to import: not for everybody who collects tests.
        operator = importlib.import_module("cloudcoil.models.prometheus_operator.v1")
        model = getattr(operator, one["kind"]).model_validate(one)
        # The models drop what they do not know: an object comes back whole, or it held such a
        # thing.
        kept = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return [] if kept == one else [f"{one['kind']}: only {kept} is known"]
    try:
        kubernetes_validate.validate(one, RELEASE, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{one['kind']}: {error.message}"]
    return []


def _of_kind(objects, kind):
    return next(one for one in objects if one["kind"] == kind)


def _pods(objects):
    """Every pod that the objects make."""
    for one in objects:
        if one["kind"] == "Deployment":
            yield one["spec"]["template"]
        elif one["kind"] == "CronJob":
            yield one["spec"]["jobTemplate"]["spec"]["template"]


def _containers(pod):
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def _images(objects):
    return {container["image"] for pod in _pods(objects) for container in _containers(pod)}


def _agrees(found, wanted):
    """Whether all that is wanted is found.

    What is found besides does not matter, except in lists.
    """
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            _agrees(found.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_agrees, found, wanted))
    return bool(found == wanted)


def test_every_object_keeps_to_the_published_schema(built):
    for name in [*PLAIN, *ENCRYPTED]:
        assert not [fault for one in built[name] for fault in _faults(one)]
        assert {one["metadata"]["namespace"] for one in built[name]} == {"rankwatch"}


RESTRICTED = """
automountServiceAccountToken: false
securityContext: {runAsNonRoot: true, runAsUser: 10001, seccompProfile: {type: RuntimeDefault}}
hostNetwork:
hostPID:
hostIPC:
"""
CONFINED = (
    "{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}"
)
VOLUMES = {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}


def test_every_pod_keeps_to_the_restricted_standard_and_is_of_this_version(objects):
    assert {image.rpartition("/")[2] for image in _images(objects)} == {
        f"rankwatch:{monitor.__version__}"
    }
    for pod in _pods(objects):
        assert _agrees(pod["spec"], yaml.safe_load(RESTRICTED))
        assert {
            kind for volume in pod["spec"]["volumes"] for kind in volume if kind != "name"
        } <= VOLUMES
        for container in _containers(pod):
            assert container["securityContext"] == yaml.safe_load(CONFINED)
            assert {"requests", "limits"} == set(container["resources"])


def test_what_a_selector_looks_for_is_there(objects):
    config, account = (
        _of_kind(objects, kind)["metadata"]["name"] for kind in ("ConfigMap", "ServiceAccount")
    )
    labels = _of_kind(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    assert _of_kind(objects, "Service")["spec"]["selector"].items() <= labels
    budget = _of_kind(objects, "PodDisruptionBudget")["spec"]["selector"]
    assert budget["matchLabels"].items() <= labels
    policies = [one["spec"]["podSelector"] for one in objects if one["kind"] == "NetworkPolicy"]
    for pod in _pods(objects):
        for policy in policies:
            assert policy["matchLabels"].items() <= pod["metadata"]["labels"].items()
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        claimed = [each["configMap"]["name"] for each in volumes.values() if "configMap" in each]
        assert claimed == [config]
        assert pod["spec"]["serviceAccountName"] == account
        for container in _containers(pod):
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()


def test_the_service_monitor_scrapes_the_service_as_the_job_of_the_rules(built):
    single = built["overlays/single"]
    service, scraped = (_of_kind(single, kind) for kind in ("Service", "ServiceMonitor"))
    labels, scrape = service["metadata"]["labels"], scraped["spec"]
    assert scrape["selector"]["matchLabels"].items() <= labels.items()
    ports = [port["name"] for port in service["spec"]["ports"]]
    assert [endpoint["port"] for endpoint in scrape["endpoints"]] == ports
    assert labels[scrape["jobLabel"]] == "rankwatch"
    plain = [
        yaml.safe_load(path.read_text()) for path in sorted(DEPLOY.glob("prometheus/*.rules.yml"))
    ]
    assert [one["spec"] for one in single if one["kind"] == "PrometheusRule"] == plain


PROMETHEUS = """
namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}
podSelector: {matchLabels: {app.kubernetes.io/name: prometheus}}
"""


def test_only_prometheus_may_come_in_and_only_what_is_named_is_reached(built):
    for folder in PLAIN:
        policies = [one for one in built[folder] if one["kind"] == "NetworkPolicy"]
        comers, reached = [], set()
        for policy in policies:
            for rule in policy["spec"].get("ingress", []):
                comers += rule["from"]
            for rule in policy["spec"]["egress"]:
                reached |= {port["port"] for port in rule["ports"]}
        (ours,) = (each for each in policies if each["metadata"]["name"] == "rankwatch")
        assert comers == [yaml.safe_load(PROMETHEUS)]
        assert set(ours["spec"]["policyTypes"]) == {"Ingress", "Egress"}
        assert reached == {53, 8080, 9093} | ({5432} if folder == "overlays/ha" else set())


PROBES = """
Deployment:
  spec:
    template:
      spec:
        containers:
          - startupProbe: {httpGet: {path: /-/healthy, port: http}}
            livenessProbe: {httpGet: {path: /-/healthy, port: http}}
            readinessProbe: {httpGet: {path: /-/ready, port: http}}
            ports: [{name: http}]
"""
ONE_DAEMON_WITH_SQLITE = """
Deployment: {spec: {replicas: 1, strategy: {type: Recreate}, template: {spec: {initContainers: [{args: [db, upgrade]}]}}}}
PersistentVolumeClaim: {spec: {accessModes: [ReadWriteOncePod]}}
"""
SEVERAL_DAEMONS_WITH_POSTGRESQL_AND_NO_MIGRATION_UNDER_THEM = """
Deployment:
  spec:
    replicas: 2
    strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
    template:
      spec:
        initContainers: []
        topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname}, {topologyKey: topology.kubernetes.io/zone}]
CronJob: {spec: {suspend: true, jobTemplate: {spec: {template: {spec: {containers: [{args: [db, upgrade]}]}}}}}}
PodDisruptionBudget: {spec: {maxUnavailable: 1}}
"""
PROBES_AND_SCRAPES_WITH_TLS = """
Deployment:
  spec:
    template:
      spec:
        containers:
          - startupProbe: {httpGet: {scheme: HTTPS}}
            livenessProbe: {httpGet: {scheme: HTTPS}}
            readinessProbe: {httpGet: {scheme: HTTPS}}
ServiceMonitor:
  spec:
    endpoints:
      - scheme: https
        basicAuth: {username: {}, password: {}}
        tlsConfig: {ca: {}, serverName: rankwatch.rankwatch.svc}
"""
SECRETS = """
secret:
projected: {sources: [{secret: {name: rankwatch}}, {secret: {name: rankwatch-tls}}]}
"""


def test_the_objects_say_what_each_overlay_is_for(built):
    for name, wanted in [
        *((folder, PROBES) for folder in PLAIN),
        ("base", ONE_DAEMON_WITH_SQLITE),
        ("overlays/ha", SEVERAL_DAEMONS_WITH_POSTGRESQL_AND_NO_MIGRATION_UNDER_THEM),
        *((name, PROBES_AND_SCRAPES_WITH_TLS) for name in ENCRYPTED),
    ]:
        for kind, part in yaml.safe_load(wanted).items():
            assert _agrees(_of_kind(built[name], kind), part), kind
        assert "PersistentVolumeClaim" not in {one["kind"] for one in built["overlays/ha"]}


def test_the_configuration_loads_and_listens_for_the_probes(built, tmp_path):
    for folder, database in [("base", "sqlite"), ("overlays/ha", "postgresql")]:
        (tmp_path / "database_url").write_text(DATABASE)
        for name, text in _of_kind(built[folder], "ConfigMap")["data"].items():
            (tmp_path / name).write_text(text.replace("/run/secrets/rankwatch", str(tmp_path)))
        settings = load_settings(tmp_path / "rankwatch.yaml")
        assert settings.database.get_secret_value().startswith(database)
        assert settings.listen_address == ("0.0.0.0", 29108)  # noqa: S104 - in a pod
        assert settings.listen_without_authentication


def test_with_tls_every_pod_reads_web_file_and_certificate(encrypted):
    for pod in _pods(encrypted):
        (found,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "secrets")
        assert _agrees(found, yaml.safe_load(SECRETS))


def test_the_web_file_that_the_documentation_shows_is_read_from_where_the_secrets_are(
    encrypted, tmp_path
):
    shown = guide("how-to/kubernetes.md").partition("## TLS and passwords")[2]
    setting, web = (block.partition("```")[0] for block in shown.split("```yaml\n")[1:3])
    mounts = _containers(next(_pods(encrypted)))[-1]["volumeMounts"]
    (place,) = (each["mountPath"] for each in mounts if each["name"] == "secrets")
    config = _of_kind(encrypted, "ConfigMap")["data"]["rankwatch.yaml"] + setting
    config = config.replace("listen_without_authentication: true", "")
    hashed = bcrypt.hashpw(b"x", bcrypt.gensalt(4)).decode().replace("$04$", "$10$")
    (tmp_path / "rankwatch.yaml").write_text(config.replace(place, str(tmp_path)))
    (tmp_path / "web.yaml").write_text(web.replace("$2y$10$...", hashed))
    (tmp_path / "database_url").write_text(DATABASE)
    access = load_settings(tmp_path / "rankwatch.yaml").access
    assert access is not None
    assert access.tls_server_config.cert_file == f"{tmp_path}/tls.crt"
    assert set(access.basic_auth_users) == {"prometheus"}


def test_the_overlay_that_the_documentation_shows_builds_and_another_configuration_is_another_rollout(
    kustomize, tmp_path
):
    shutil.copytree(DEPLOY / "kubernetes", tmp_path / "rankwatch" / "deploy" / "kubernetes")
    text = guide("how-to/kubernetes.md")
    (mine := tmp_path / "mine").mkdir()
    (mine / "kustomization.yaml").write_text(text.partition("```yaml\n")[2].partition("```")[0])
    for name in ("egress.yaml", "rankwatch.yaml"):
        shutil.copy(DEPLOY / "kubernetes" / "base" / name, mine)
    before = _of_kind(kustomize(mine), "ConfigMap")["metadata"]["name"]
    changed = (mine / "rankwatch.yaml").read_text().replace("home-feed", "mail")
    (mine / "rankwatch.yaml").write_text(changed)
    objects = kustomize(mine)
    assert _images(objects) == {"YOUR-REGISTRY/rankwatch@sha256:..."}
    assert _of_kind(objects, "ConfigMap")["data"]["rankwatch.yaml"] == changed
    assert _of_kind(objects, "ConfigMap")["metadata"]["name"] != before
