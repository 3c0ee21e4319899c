"""deploy/: every name in it, of a metric, setting, variable, endpoint, verb, flag or exit code, exists in the code."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from exporter import __version__
from exporter.cli.main import cli
from exporter.cli.verbs.dead_letters import dead_letters
from exporter.errors import ExporterError
from exporter.monitor.health import ENDPOINTS, START_SECS_MAX
from exporter.settings.load import load
from exporter.settings.model import PREFIX, SCALARS, Settings, variable
from exporter.settings.tables import OF_VARIABLES
from tests.support.prometheus import queried, server
from tests.support.snapshots import NOW_MS, busy_snapshot, scraped

DEPLOY = Path(__file__).parents[2] / "deploy"
NOMAD, NOMAD_DOCKER = "nomad/exporter.nomad.hcl", "nomad/exporter-docker.nomad.hcl"
NOMAD_DERIVE = "nomad/derive.nomad.hcl"
VARIABLES = {variable(name) for name in (*SCALARS, *OF_VARIABLES)} | {"EXPORTER_CONFIG", "EXPORTER_CACHE_DIR"}
GIVEN = {
    "NOMAD_TASK_DIR": "/local", "NOMAD_ALLOC_DIR": "/alloc", "NOMAD_PORT_http": "21108", "NOMAD_ALLOC_INDEX": "1",
    "MESOS_SANDBOX": "/sandbox", "PORT_HTTP": "31108",
}  # fmt: skip
"""What the schedulers set, for example."""
NOMAD_KILL_SECS_MAX = 30.0
"""max_kill_timeout of a Nomad client whose configuration does not name it."""
STOP_MARGIN_SECS = 15.0
"""What leaving the group and ending the JVM may take beyond stop_budget_secs."""


def text(name: str) -> str:
    return (DEPLOY / name).read_text()


def filled(value: str) -> str:
    """With the schedulers' variables put in; one that they do not set is an error."""
    return re.sub(r"\$\{?(\w+)\}?", lambda match: GIVEN[match[1]], value)


def block(hcl: str, head: str) -> str:
    """The body of the first block that opens with `head {`."""
    start = hcl.index(f"{head} {{") + len(head) + 2
    depth, at = 1, start
    while depth:
        depth += {"{": 1, "}": -1}.get(hcl[at], 0)
        at += 1
    return hcl[start : at - 1]


def attribute(body: str, name: str) -> str:
    """The text of `name = "..."`."""
    match = re.search(rf'^\s*{name}\s*=\s*"([^"]*)"', body, re.M)
    assert match, name
    return match[1]


def nomad(name: str) -> tuple[list[str], dict[str, str], float]:
    """Command line, environment and seconds between the signal and the kill, as Nomad runs the task."""
    task = block(text(name), 'task "exporter"')
    config = block(task, "config")
    args = json.loads(re.search(r"args\s*=\s*(\[[^\]]*\])", config)[1])  # type: ignore[index]
    command = [Path(command_of(name)).name] if "command" in config else entrypoint()
    lines = re.findall(r'^\s*(\w+)\s*=\s*"([^"]*)"', block(task, "env"), re.M)
    assert attribute(task, "kill_signal") == "SIGTERM"
    return [*command, *map(filled, args)], {key: filled(value) for key, value in lines}, _secs(
        attribute(task, "kill_timeout")
    )


def command_of(name: str) -> str:
    """The command of a job without a container: the default of its variable."""
    variable_of = re.search(r"command\s*=\s*var\.(\w+)", text(name))
    assert variable_of
    return attribute(block(text(name), f'variable "{variable_of[1]}"'), "default")


def marathon(name: str = "marathon/exporter.json") -> tuple[list[str], dict[str, str], float]:
    app = json.loads(text(name))
    words = shlex.split(filled(app["cmd"]))
    assert words[:2] == ["exec", "env"], "else the shell gets the signal"
    env = {key: value for key, value in app["env"].items() if isinstance(value, str)}
    at = words.index("exporter")
    env |= dict(word.split("=", 1) for word in words[2:at])
    return words[at:], env, float(app["taskKillGracePeriodSeconds"])


def compose() -> tuple[list[str], dict[str, str], float]:
    service = yaml.safe_load(text("docker/compose.yaml"))["services"]["exporter"]
    assert service["stop_signal"] == "SIGTERM"
    env = {**dockerfile_env(), **service["environment"]}
    return [*entrypoint(), *service["command"]], env, _secs(service["stop_grace_period"])


def entrypoint() -> list[str]:
    """What the image's script becomes, with the arguments behind it, for all but an executor (test_kubernetes.py)."""
    (script,) = json.loads(re.search(r"^ENTRYPOINT (.*)$", text("docker/Dockerfile"), re.M)[1])  # type: ignore[index]
    assert f"COPY deploy/docker/{Path(script).name} {Path(script).parent}/" in text("docker/Dockerfile")
    assert '[ "$1" = executor ] || exec exporter "$@"' in text(f"docker/{Path(script).name}").splitlines()
    return ["exporter"]


def dockerfile_env() -> dict[str, str]:
    joined = text("docker/Dockerfile").replace("\\\n", " ")
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(re.findall(r"^ENV (.*)$", joined, re.M))))


def _secs(value: str) -> float:
    return float(value.removesuffix("s"))


JOBS = {
    "nomad": lambda: nomad(NOMAD),
    "nomad-docker": lambda: nomad(NOMAD_DOCKER),
    "marathon": marathon,
    "compose": compose,
}


def settings_of(words: list[str], env: dict[str, str]) -> Settings:
    """What the command line of a job, read by the command itself, and its environment make of the compose settings."""
    assert words[0] == "exporter"
    command = cli.commands[words[1]]
    given = command.make_context(words[1], list(words[2:])).params
    flags = {name.removeprefix("setting_"): value for name, value in given.items() if name.startswith("setting_")}
    assert given["config"].name == "exporter.toml"
    ours = {name: value for name, value in env.items() if name.startswith(PREFIX) and name != "EXPORTER_CACHE_DIR"}
    return load(DEPLOY / "docker" / "exporter.toml", {k: v for k, v in flags.items() if v is not None}, ours)


@pytest.mark.parametrize("name", JOBS)
def test_each_job_starts_a_task_that_its_scheduler_can_look_at(name: str) -> None:
    """The command line parses, the settings load, the health server listens where the scheduler asks."""
    words, env, kill_secs = JOBS[name]()
    settings = settings_of(words, {**dockerfile_env(), **env} if "docker" in name else env)
    assert words[1] == "run"
    assert settings.http_port > 0
    assert settings.http_host == "0.0.0.0"
    assert kill_secs >= settings.stop_budget_secs + STOP_MARGIN_SECS
    assert {key for key in env if key.startswith(PREFIX)} <= VARIABLES


DERIVING = {"nomad": lambda: nomad(NOMAD_DERIVE), "marathon": lambda: marathon("marathon/derive.json")}


@pytest.mark.parametrize("name", DERIVING)
def test_derived_tables_are_made_by_one_task_that_nobody_looks_at(name: str) -> None:
    """It has no health server; a second one would only lose its commits. Scratch files go with it, credentials come."""
    words, env, kill_secs = DERIVING[name]()
    given = cli.commands["derive"].commands["run"].make_context("run", words[3:]).params
    assert words[:3] == ["exporter", "derive", "run"] and given["config"].name == "exporter.toml"
    budget = {"EXPORTER_STOP_BUDGET_SECS"} & env.keys()
    assert kill_secs >= float(env["EXPORTER_STOP_BUDGET_SECS"] if budget else 30) + STOP_MARGIN_SECS
    assert env["TMPDIR"] in ("/alloc/tmp", "/sandbox")
    assert {key for key in env if key.startswith(PREFIX)} <= VARIABLES
    app, hcl = json.loads(text("marathon/derive.json")), text(NOMAD_DERIVE)
    assert app["instances"] == 1 and re.search(r"count = 1\n", hcl)
    assert "check {" not in hcl and not {"healthChecks", "readinessChecks"} & app.keys()


@pytest.mark.parametrize("name", ["nomad", "marathon"])
def test_without_a_container_scratch_files_go_with_the_task(name: str) -> None:
    """They stand in a folder that the scheduler removes; a container's /tmp goes by itself."""
    _, env, _ = JOBS[name]()
    assert env["TMPDIR"] in ("/alloc/tmp", "/sandbox")


def test_nomad_finds_the_command_without_a_path() -> None:
    """It searches none for what stands on the machine: only an absolute path starts."""
    assert Path(command_of(NOMAD)).is_absolute()


@pytest.mark.parametrize("name", [NOMAD, NOMAD_DOCKER, NOMAD_DERIVE])
def test_no_nomad_client_cuts_a_stop_short(name: str) -> None:
    """A client without a word on max_kill_timeout allows 30 s; what a job asks beyond is cut without one either."""
    assert _secs(attribute(block(text(name), 'task "exporter"'), "kill_timeout")) <= NOMAD_KILL_SECS_MAX


@pytest.mark.parametrize("name", [NOMAD, NOMAD_DOCKER, NOMAD_DERIVE])
def test_a_nomad_job_without_variables_is_not_left_pending(name: str) -> None:
    """A template that reads a variable waits for it for ever, unless it asks first whether there is one."""
    task = block(text(name), 'task "exporter"')
    for asked in re.findall(r'nomadVar "([^"]+)"', task):
        assert task.index(f'if nomadVarExists "{asked}"') < task.index(f'with nomadVar "{asked}"')


@pytest.mark.parametrize("name", [NOMAD, NOMAD_DOCKER, NOMAD_DERIVE])
def test_what_nomad_writes_for_a_task_is_for_its_user_alone(name: str) -> None:
    """Settings and credentials may hold secrets; the image's user, who is not root, still reads them."""
    task = block(text(name), 'task "exporter"')
    templates = task.split("template {")[1:]
    assert len(templates) == 2
    for template in templates:
        assert attribute(template, "perms") == "600"
    user = re.search(r"^USER (\d+)", text("docker/Dockerfile"), re.M)
    assert user
    if name == NOMAD_DOCKER:
        settings = next(one for one in templates if "local/exporter.toml" in one)
        assert re.search(rf"uid\s*=\s*{user[1]}\b", settings)


def test_exec_is_not_recommended_without_its_catch() -> None:
    """A task under exec sees its allocation alone: a lake there would go with it."""
    head = text(NOMAD).partition("variable")[0]
    assert "host" in head and "volume" in head


def test_a_hung_task_is_ended_and_one_in_an_outage_is_not() -> None:
    """Only /healthz restarts a task, and not before a start may be over; /readyz says whether to send work."""
    for name in (NOMAD, NOMAD_DOCKER):
        hcl = text(name)
        alive, ready = block(hcl, "check"), block(hcl[hcl.index('"ready"') - 60 :], "check")
        assert attribute(alive, "path") == "/healthz"
        assert _secs(attribute(block(alive, "check_restart"), "grace")) >= START_SECS_MAX
        assert attribute(ready, "path") == "/readyz"
        assert "check_restart" not in ready
    app = json.loads(text("marathon/exporter.json"))
    assert [check["path"] for check in app["healthChecks"]] == ["/healthz"]
    assert app["healthChecks"][0]["gracePeriodSeconds"] >= START_SECS_MAX
    assert [check["path"] for check in app["readinessChecks"]] == ["/readyz"]
    assert {check["portName"] for check in app["readinessChecks"]} <= {port["name"] for port in app["portDefinitions"]}
    assert re.search(r"--start-period=(\d+)s", text("docker/Dockerfile"))[1] == f"{START_SECS_MAX:.0f}"  # type: ignore[index]


def test_all_that_is_scraped_or_probed_is_served() -> None:
    """Paths and ports of probes, Prometheus and the image agree with the health server and with each other."""
    path = re.compile(r"(?<=[\s\"'0-9])/(?:healthz|readyz|metrics|status)\b")
    paths = {found for file in DEPLOY.rglob("*") if file.is_file() for found in path.findall(file.read_text())}
    assert {"/healthz", "/readyz", "/metrics"} <= paths <= set(ENDPOINTS)
    (job,) = yaml.safe_load(text("prometheus/prometheus.yml"))["scrape_configs"]
    services = yaml.safe_load(text("docker/compose.yaml"))["services"]
    host, port = job["static_configs"][0]["targets"][0].split(":")
    assert host in services
    assert port == dockerfile_env()["EXPORTER_HTTP_PORT"]
    assert job["job_name"] == "exporter", "the rule ExporterDown names it"
    assert f"EXPOSE {port}" in text("docker/Dockerfile")


def test_every_variable_flag_and_verb_in_deploy_exists() -> None:
    """EXPORTER_..., `exporter <verb>` and its flags, in files and their comments."""
    for file in sorted(DEPLOY.rglob("*")):
        if not file.is_file():
            continue
        body = file.read_text()
        assert set(re.findall(r"\bEXPORTER_[A-Z_]+\b", body)) <= VARIABLES, file.name
        if file.suffix == ".md":  # whose sentences say what an exporter does
            body = "\n".join(re.findall(r"```.*?```|``.*?``|`[^`]+`", body, re.S))
        body = body.replace("exporter dead-letters ", "exporter ")
        for verb, rest in re.findall(r"(?<![\w./\"-])exporter ([a-z][a-z-]+)((?: --[a-z-]+)*)", body):
            if verb not in VERBS:
                assert verb in PROSE, f"{file.name}: exporter {verb}"
                continue
            known = {flag for option in VERBS[verb].params for flag in option.opts}
            assert set(rest.split()) <= known, f"{file.name}: exporter {verb}{rest}"
    command = yaml.safe_load(text("docker/compose.yaml"))["services"]["create-wal"]["command"]
    assert cli.commands[command[0]].make_context(command[0], command[1:]).params["create_wal"] is True


VERBS = {**cli.commands, **dead_letters.commands}
PROSE = {"as", "of", "installed", "prometheus", "exporter", "exporter-derive", "scale", "wait"}
"""What may follow the word `exporter` in a sentence, or where it is the name in a command of kubectl."""


def test_settings_that_comments_name_exist() -> None:
    """A threshold that goes with a setting says which."""
    names = set(re.findall(r"\b[a-z]+(?:_[a-z]+)*_(?:secs|max|ms|bytes)\b", text("prometheus/alerts.yml")))
    names |= {name for file in (NOMAD, NOMAD_DOCKER) for name in re.findall(r"\b[a-z_]+_secs\b", text(file))}
    assert names
    assert names <= set(SCALARS)


def test_exit_codes_that_deploy_names_exist() -> None:
    """69, 70 and 75 are told in comments and alerts."""
    kinds = [ExporterError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    codes = {kind.exit_code for kind in kinds}
    told = {NOMAD: r"Exits (\d+) and (\d+).*?; (\d+) is not", "prometheus/alerts.yml": r"hint\. (\d+) is"}
    for name, pattern in told.items():
        match = re.search(pattern, text(name))
        assert match, name
        assert {int(code) for code in match.groups()} <= codes


def samples(moments: int, pace_secs: int) -> str:
    """OpenMetrics text: a busy task's series, its counters growing, up to NOW_MS."""
    lines = []
    for name, series in scraped(busy_snapshot()).items():
        counts = name.endswith(("_total", "_sum", "_count", "_bucket"))
        lines.append(f"# TYPE {name} unknown")
        for labels, number in series.items():
            said = ",".join(f"{one}={json.dumps(text)}" for one, text in (*labels, ("app", "app"), ("instance", "i")))
            for at in range(moments):
                secs = NOW_MS / 1000 - pace_secs * (moments - 1 - at)
                lines.append(f"{name}{{{said}}} {number * (at + 1 if counts else 1)} {secs}")
    return "\n".join((*lines, "# EOF", ""))


def test_every_query_of_the_dashboard_returns_data_or_says_why_not(tmp_path: Path) -> None:
    """Prometheus itself answers, of the exports and tasks that are chosen; legends name labels that are there."""
    dashboard = json.loads(text("grafana/dashboard.json"))
    chosen = 'app=~"$app", instance=~"$instance"'
    with server(tmp_path, samples(40, 15)) as url:
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                asked = re.findall(r"exporter_\w+(?:{([^}]*)})?", target["expr"])
                assert asked and all(one.startswith(chosen) for one in asked), panel["title"]
                expr = target["expr"].replace("$app", "app").replace("$instance", "i|other")
                found = queried(url, expr, NOW_MS / 1000)
                assert found or "mpty" in panel.get("description", ""), panel["title"]
                legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                assert all(legend <= set(one["metric"]) for one in found), panel["title"]
        for one in dashboard["templating"]["list"][1:]:
            asks = re.fullmatch(r"label_values\((.+), (\w+)\)", one["definition"])
            assert asks and queried(url, f"count by ({asks[2]}) ({asks[1].replace('$app', '.*')})", NOW_MS / 1000)
    shown = {name for panel in dashboard["panels"] for target in panel["targets"]
             for name in re.findall(r"exporter_\w+", target["expr"])}  # fmt: skip
    figures = {"exporter_commits_total", "exporter_committable_delay_records", "exporter_position_discrepancy_records"}
    assert figures <= shown, "the figures of the original design"


def test_the_dashboard_lies_where_grafana_is_told_to_look() -> None:
    """Every file that is mounted exists; what Grafana reads is mounted; the data source is that of the panels."""
    services = yaml.safe_load(text("docker/compose.yaml"))["services"]
    for service in services.values():
        for mount in service.get("volumes", ()):
            here = mount.split(":")[0]
            assert not here.startswith(".") or (DEPLOY / "docker" / here).exists(), mount
    (provider,) = yaml.safe_load(text("grafana/provisioning/dashboards/exporter.yml"))["providers"]
    assert any(mount.split(":")[1].startswith(provider["options"]["path"]) for mount in services["grafana"]["volumes"])
    (source,) = yaml.safe_load(text("grafana/provisioning/datasources/prometheus.yml"))["datasources"]
    dashboard = json.loads(text("grafana/dashboard.json"))
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {"${datasource}"}
    variable = dashboard["templating"]["list"][0]
    assert (variable["name"], variable["type"], variable["query"]) == ("datasource", "datasource", source["type"])


def test_the_version_stands_in_one_place() -> None:
    """Images are called by it, and a page tells what changed with it."""
    named = {found for file in DEPLOY.rglob("*") if file.is_file()
             for found in re.findall(r"kafka-delta-exporter:([\w.]+)", file.read_text())}  # fmt: skip
    assert named == {__version__}
    assert "version = attr: exporter.__version__" in (DEPLOY.parent / "setup.cfg").read_text()
    assert f"\n## {__version__}\n" in text("handbook/changelog.md")


def test_the_image_is_made_of_named_versions_that_fit_what_is_asked_for() -> None:
    """All of setup.cfg's requirements, extras too, but those of the tests and of other Pythons."""
    pinned = {}
    for line in text("docker/constraints.txt").splitlines():
        if not line.startswith("#"):
            name, _, version = line.partition("==")
            pinned[canonicalize_name(name)] = Version(version)
    config = configparser.ConfigParser()
    config.read(DEPLOY.parent / "setup.cfg")
    groups = [config["options"]["install_requires"], *(
        wanted for extra, wanted in config["options.extras_require"].items() if extra != "test")]  # fmt: skip
    lines = [line for group in groups for line in group.splitlines() if line and not line.startswith("#")]
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"python_version": "3.11"}):
            assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, requirement.name
    assert "FROM python:3.11-" in text("docker/Dockerfile")
    assert "--constraint /opt/exporter/constraints.txt" in text("docker/Dockerfile")


def test_the_image_is_that_of_a_user_without_rights() -> None:
    """Not root; jars baked in; nothing of the user's home is needed."""
    lines = [line for line in text("docker/Dockerfile").splitlines() if line and not line.startswith("#")]
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert users == ["10001"]
    assert lines.index("USER 10001") > next(at for at, line in enumerate(lines) if "exporter prepare" in line)
    assert dockerfile_env()["EXPORTER_CACHE_DIR"].startswith("/opt/")
    assert isinstance(cli.commands["prepare"], click.Command)
