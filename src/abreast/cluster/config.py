"""Settings of a cluster."""

from pydantic import Field

from abreast.settings import Section


class ClusterConfig(Section):
    """Where the cluster is, and how its workers are started."""

    address: str = "auto"
    """HOST:PORT of a Ray cluster; local: one on this machine, for this program alone; auto: RAY_ADDRESS, or
    the cluster that `ray start` made or joined on this machine, else local."""
    start_timeout: float = Field(60.0, gt=0)
    """Seconds within which the cluster has to answer and a node has to have room for a worker."""


class TrainingCluster(ClusterConfig):
    """A cluster to train on."""

    workers_here: int | None = Field(None, ge=0)
    """Learners in processes of this machine, which share memory with the run; null: as many as its cores leave room for."""
    learner_cpus: float = Field(1.0, ge=0)
    """CPUs of each learner on a node."""
    learner_gpus: float = Field(0.0, ge=0)
    """GPUs of each learner on a node, where it then computes; 0.25: four share one."""
    actor_cpus: float = Field(1.0, ge=0)
    """CPUs of each actor on a node."""


class RolloutCluster(ClusterConfig):
    """A cluster for environments."""

    worker_cpus: float = Field(1.0, ge=0)
    """CPUs of each worker."""
    worker_gpus: float = Field(0.0, ge=0)
    """GPUs of each worker."""
