"""One run of a comparison as a task of Airflow 3, in a pod of its own on PostgreSQL. Without Kubernetes a BashOperator does the same."""  # noqa: INP001, E501 - a script

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG
from kubernetes.client import models as k8s

_CONFINED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_USER = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "fsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}

with DAG(
    "rankwatch_home_feed",
    schedule="*/15 * * * *",  # as in the configuration: the slot is the time that Airflow scheduled
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # what a recommender answers now is not what it answered an hour ago
    max_active_runs=1,
):
    # Any exit code but 0 fails the task. Tried again, it runs the same slot again, which alerts
    # nobody twice.
    KubernetesPodOperator(
        task_id="run_once",
        namespace="rankwatch",
        service_account_name="rankwatch",
        image="registry.example.com/rankwatch:0.1.0",
        arguments=["run-once", "home-feed", "--slot", "{{ data_interval_end | ts }}", "--json"],
        volumes=[
            k8s.V1Volume(
                name="config", config_map=k8s.V1ConfigMapVolumeSource(name="rankwatch-run-once")
            ),
            k8s.V1Volume(name="secrets", secret=k8s.V1SecretVolumeSource(secret_name="rankwatch")),  # noqa: S106 - its name
        ],
        volume_mounts=[
            k8s.V1VolumeMount(name="config", mount_path="/etc/rankwatch", read_only=True),
            k8s.V1VolumeMount(name="secrets", mount_path="/run/secrets/rankwatch", read_only=True),
        ],
        security_context=_USER,
        container_security_context=_CONFINED,
        automount_service_account_token=False,
        retries=2,
        retry_delay=timedelta(minutes=1),
        execution_timeout=timedelta(minutes=10),
    )
