"""Experiments over Slurm: what can be told without one, and a real one on this machine where there is one."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ROOT, make_data
from mpi import needs_mpi
from sklearn.datasets import dump_svmlight_file
from small_experiments import SMALL

import dsba
from dsba.fitting import codec
from dsba.lab import run
from dsba.lab.folder import Folder

PROGRAMS = ("sbatch", "squeue", "scancel", "srun", "slurmctld", "slurmd", "munged", "munge")
RUNS = 60
CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=2
RebootProgram=/bin/false
MailProg=/bin/false
ReturnToService=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=3 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def test_without_slurm_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(dsba.InputError, match="there is no Slurm here: the command sbatch was not found"):
        run(SMALL, tmp_path / "out", executor="slurm")
    with pytest.raises(dsba.InputError, match="unknown executor 'slrum'"):
        run(SMALL, tmp_path / "out", executor="slrum")


def test_objects_of_this_process_cannot_go_elsewhere(tmp_path):
    rows = dsba.data.load("breast-cancer")
    objects = SMALL | {"data": [{"name": "mine", "X": rows.X, "y": rows.y}]}
    with pytest.raises(dsba.InputError, match="this experiment has Python objects"):
        run(objects, tmp_path / "out", executor="slurm")


# A real one ----------------------------------------------------------------------------------------


def free_ports():
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_for(happened, seconds):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Slurm of one node, with its own key, ports and folders; ended at the end, process by process."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs slurm-wlm and munge, and root to start them; not found: {', '.join(missing) or 'root'}")
    root, host = tmp_path_factory.mktemp("slurm"), socket.gethostname().partition(".")[0]
    (root / "slurm.conf").write_text(CONF.format(root=root, host=host, ports=free_ports()))
    (root / "state").mkdir()
    (root / "spool").mkdir()
    environment = os.environ | {"SLURM_CONF": str(root / "slurm.conf")}
    (root / "munge.key").write_bytes(os.urandom(128))
    (root / "munge.key").chmod(0o600)
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munged = ["munged", "--foreground", "--force", *(f"--{name}={root}/munge.{end}" for name, end in files.items())]
    daemons = [subprocess.Popen(munged, stderr=subprocess.DEVNULL)]

    def idle():
        asked = ["sinfo", "--noheader", "--format=%T"]
        return "idle" in subprocess.run(asked, env=environment, capture_output=True, text=True, check=False).stdout

    try:
        wait_for((root / "munge.socket").exists, 30)
        for program in ("slurmctld", "slurmd"):
            daemons.append(subprocess.Popen([program, "-D"], env=environment, stderr=subprocess.DEVNULL))
        wait_for(idle, 60)
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)


def command_of(one, out):
    """The experiment of a folder again, over Slurm, in another folder."""
    words = ["compare", one / "experiment.toml", "--out", out, "--executor", "slurm"]
    return [sys.executable, "-m", "dsba", *map(str, words)]


def contents_of(root):
    """Every file of the results, and every history but for its seconds."""
    folder = Folder(root)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    histories = {}
    for path in sorted((root / "runs").glob("*.dsba")):
        outcome, history = folder.read_run(path.stem)
        columns = {name: values for name, values in history.to_dict().items() if "seconds" not in name}
        histories[path.stem] = (outcome, {name: np.asarray(values).tobytes() for name, values in columns.items()})
    return names, histories


@pytest.mark.full
def test_runs_over_slurm_killed_and_resumed_give_the_folder_of_one_process(cluster, tmp_path):
    methods = [{"algorithm": "dsba"}, {"algorithm": "extra", "step_size": "auto"}]
    experiment = SMALL | {"method": methods, "seeds": list(range(RUNS // len(methods))), "stop": {"max_passes": 5}}
    expected = run(experiment, tmp_path / "one", workers=1)
    out = tmp_path / "many"
    command = command_of(tmp_path / "one", out)
    begun = subprocess.Popen(command, env=cluster, stdout=subprocess.DEVNULL)
    wait_for(lambda: len(list((out / "runs").glob("*.dsba"))) >= 3, 300)
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    finished = len(list((out / "runs").glob("*.dsba")))
    assert finished < len(expected.runs)
    done = subprocess.run(command, env=cluster, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    assert contents_of(out) == contents_of(tmp_path / "one")


SLOW = """
import os, pathlib, time

def slow(z, X, y):
    pathlib.Path(os.environ["SEEN"]).touch()
    time.sleep(0.05)
    return 0.0
"""
LONG = """
metrics = ["slow.py:slow"]
stop = { max_passes = 200 }
data = [{ name = "breast-cancer" }]
problem = [{ operator = "ridge", lam = 0.01 }]
network = [{ graph = "ring", n_nodes = 4 }]
method = [{ algorithm = "extra", step_size = "auto" }]
"""


@pytest.mark.full
def test_a_task_near_its_time_limit_is_requeued_and_goes_on(cluster, tmp_path, monkeypatch):
    """The task is signalled as Slurm does it before the limit; the run ends as if it had not been stopped."""
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "long.toml").write_text(LONG)
    run(tmp_path / "long.toml", tmp_path / "one", workers=1)
    (tmp_path / "seen").unlink()
    words = ["compare", tmp_path / "long.toml", "--out", tmp_path / "many", "--executor", "slurm"]
    command = [sys.executable, "-m", "dsba", *map(str, words), "--plugin", str(tmp_path / "slow.py")]
    environment = cluster | {"SEEN": str(tmp_path / "seen")}
    begun = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    wait_for(lambda: list((tmp_path / "many" / "optima").glob("*.dsba")), 300)
    (tmp_path / "seen").unlink()  # the reference was measured, too
    wait_for((tmp_path / "seen").exists, 300)
    asked = ["squeue", "--noheader", "--states=RUNNING", "--format=%A"]
    job = subprocess.run(asked, env=cluster, capture_output=True, text=True, check=True).stdout.split()[0]
    subprocess.run(["scancel", "--batch", "--signal=USR1", job], env=cluster, check=True)

    def restarted():
        asked = ["scontrol", "show", "job", job]
        shown = subprocess.run(asked, env=cluster, capture_output=True, text=True, check=False)
        return "Restarts=1" in shown.stdout

    wait_for(restarted, 120)
    assert begun.wait(600) == 0
    assert contents_of(tmp_path / "many") == contents_of(tmp_path / "one")


@pytest.mark.full
@needs_mpi
def test_the_script_of_the_page_trains_under_srun(cluster, tmp_path):
    """The script of docs/howto/cluster.md on one machine: three ranks on one node, and nothing to load as a module."""
    blocks = (ROOT / "docs" / "howto" / "cluster.md").read_text().split("```")
    (script,) = [block.removeprefix("sh\n") for block in blocks if "\n#SBATCH" in block]
    assert "\nsrun dsba train" in script
    X, y = make_data("logistic")
    for site, rows in enumerate(np.array_split(np.arange(len(y)), 3)):
        dump_svmlight_file(X[rows], y[rows], str(tmp_path / f"site{site}.svm"))
    (tmp_path / "bin").mkdir()
    programs = {"module": "exit 0", "dsba": f'exec {sys.executable} -m dsba "$@"'}
    for name, body in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").write_text(f"export PATH={tmp_path}/bin:$PATH\n")
    (tmp_path / "job.sh").write_text(script)
    here = [
        "--nodes=1",
        "--ntasks-per-node=3",
        "--cpus-per-task=1",
        "--overcommit",
        f"--output={tmp_path}/job.log",
        "--wait",
    ]
    environment = cluster | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    done = subprocess.run(["sbatch", *here, "job.sh"], cwd=tmp_path, env=environment, timeout=600, check=False)
    assert done.returncode == 0, (tmp_path / "job.log").read_text()
    sites = [str(tmp_path / f"site{site}.svm") for site in range(3)]
    alone = [sys.executable, "-m", "dsba", "train", *sites, "--operator", "logistic", "--graph", "ring"]
    subprocess.run([*alone, "--out", str(tmp_path / "alone")], check=True, timeout=600, stdout=subprocess.DEVNULL)
    assert coefficients(tmp_path / "run") == coefficients(tmp_path / "alone")


def coefficients(folder):
    model = codec.load(folder)
    return model.weights.tobytes(), model.intercepts.tobytes()
