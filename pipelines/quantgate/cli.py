"""Parse, print, exit; no decisions. Imports nothing heavier than its argument parser until a command is chosen."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NoReturn

EXIT_CODES = """exit codes:
  0    pass: the run's demands are shown to be met
  1    blocked: a loss beyond the margin, or another limit broken, is shown
  2    usage, config, golden set or model: nothing was measured
  3    inconclusive: neither is shown; the report says what would help
  4    not measured, not comparable, a control came out wrong, or an unexpected error
  130  interrupted; the run can be resumed"""

EPILOG = f"""start here:
  quantgate init MODEL                       write config, policy and golden-set skeleton for your own model
  quantgate run configs/demo.yaml            measure, judge, report and promote the variants of a config
  quantgate plan CONFIG                      what a run would do, before anything is loaded
  quantgate show RUN                         the verdict of a stored run; RUN is a folder or a part of its id
  quantgate show RUN --variant nf4           every check of one variant, and its worst answers
  quantgate judge RUN --policy FILE          judge stored evidence under another policy; needs no model
  quantgate judge --reference FILE --candidate FILE --policy FILE
                                             judge per-item results of lm-eval, Inspect, NeMo Evaluator, or a table
  quantgate promote RUN                      move the alias to the variant that passed
  quantgate rollback --to VERSION --reason TEXT
                                             move the alias back, with the reason on record
  quantgate compare RUN_A RUN_B              what moved between two stored runs
  quantgate baseline accept RUN --reason TEXT
                                             pin a run's reference, for later runs to be held against
  quantgate policy explain FILE              what a policy demands, and what golden sets can resolve under it
  quantgate cache list                       what the cache holds; verify it, or prune it
  quantgate golden check PATH                what is wrong or doubtful in a golden set, with file, line and key
  quantgate golden add SET --from FILE --reason TEXT
                                             make the next version of a golden set, logged
  quantgate ceiling MODEL --memory 24GB      how many requests fit, by bit width and cache type; no weights needed
  quantgate diagnose RUN                     which limit binds, which lever fits, and what it costs
  quantgate signoff RUN --decision approve ...
                                             sign the release, or its rejection, with a person's name under it
  quantgate verify FILE --key PUBLIC_KEY     check a sign-off and every byte that it was given for
  quantgate publish RUN                      put a stored report into MLflow, again or for the first time
  quantgate ui                               open the MLflow UI on the store of the reports

{EXIT_CODES}"""

READER_LEFT = 128 + signal.SIGPIPE
"""What a shell shows of a program whose reader went away (``| head``)."""
COMMANDS = ("baseline", "golden", "ceiling", "plan", "diagnose", "init", "publish", "rollback", "signoff", "trend", "verify")
"""Commands with a module of their own in ``commands/``."""
NEGATIVE = re.compile(r"-\.?\d")


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code. Every exception ends here, and none of them in a pass."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a letter that the terminal's encoding lacks is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    arguments = _arguments(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _interrupt)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # measuring a model is nobody else's business
    try:
        code = int(arguments.command(arguments))
    except KeyboardInterrupt:
        print("quantgate: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        code = READER_LEFT
    except Exception as error:
        code = _explain(error, arguments)
    return _flushed(code)


def _interrupt(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def _explain(error: Exception, arguments: argparse.Namespace) -> int:
    errors = _quantgate("errors")
    text = str(error) or type(error).__name__
    print(f"quantgate: {text}", file=sys.stderr)
    if getattr(arguments, "ci", False) and _quantgate("config").ci_of_environment().annotations:
        print(_quantgate("render.annotations").refused(error, text))
    if isinstance(error, errors.QuantgateError):
        return int(error.exit_code)
    if arguments.traceback:
        import_module("traceback").print_exception(error)
    else:
        print(f"quantgate: unexpected {type(error).__name__}; run again with --traceback to see where", file=sys.stderr)
    return 4


def _flushed(code: int) -> int:
    """The exit code, after what was printed is out: a reader that went away (``| head``) does not change a verdict's code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


# ---------------------------------------------------------------------------------------------- the parser


class _Once(argparse.Action):
    """Stores one value. A second one is refused: the first would be dropped without a word."""

    given = False

    def __call__(self, _: object, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        if self.given and option_string is not None:
            raise argparse.ArgumentError(self, "given twice; it takes one value")
        self.given = True
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    """Refuses in one line, as every other error of the command line is told. A parser is for one line."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"quantgate: {message}; {self.prog} --help shows what is allowed, with an example\n")


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    arguments, rest = parser.parse_known_args(_joined(words))
    if rest:
        parser.prog = arguments.asked
        parser.error(f"not known here: {' '.join(rest)}")
    return arguments


def _joined(words: Sequence[str]) -> list[str]:
    """``--memory -1GB`` as ``--memory=-1GB``: a negative value is for its command to refuse, and no option of its own."""
    found: list[str] = []
    for word in words:
        before = found[-1] if found else ""
        if NEGATIVE.match(word) and before.startswith("--") and "=" not in before and "--" not in found:
            found[-1] = f"{before}={word}"
        else:
            found.append(word)
    return found


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"quantgate {import_module('importlib.metadata').version('quantgate')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="quantgate",
        description="Measures quantized variants of a language model against the unquantized one and decides whether one may go out.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    parser.add_argument("--traceback", action="store_true", help="show where an unexpected error came from")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_show(commands)
    _add_judge(commands)
    _add_promote(commands)
    _add_compare(commands)
    _add_policy(commands)
    _add_cache(commands)
    _add_ui(commands)
    for name in COMMANDS:
        import_module(f"quantgate.commands.{name}").add(commands, _add)
    return parser


def _add(
    commands: Any, name: str, action: Callable[[argparse.Namespace], int], text: str, example: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=f"example:\n  {example}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=action, asked=parser.prog)
    return parser


def _add_run(commands: Any) -> None:
    parser = _add(
        commands,
        "run",
        _run,
        "measure, judge, report and promote the variants of a config",
        "quantgate run configs/demo.yaml",
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="the run's YAML file")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with an interrupted run: what is complete and unaltered is not done again",
    )
    which.add_argument("--fresh", action="store_true", help="use no result of earlier runs: measure everything again")
    parser.add_argument(
        "--ci",
        action="store_true",
        help="for a job's log: no progress line, no colour, the same table and sentences; on GitHub Actions also summary and annotations",
    )
    parser.add_argument(
        "--allow-underpowered",
        action="store_true",
        help="run although a golden set is too small to show what the policy asks for",
    )
    parser.add_argument(
        "--reports", type=Path, metavar="DIR", help="where --resume looks for RUN (default: the config's 'out')"
    )


def _add_show(commands: Any) -> None:
    parser = _add(commands, "show", _show, "print the verdict of a stored run", "quantgate show 5f1c --variant nf4")
    _add_run_argument(parser)
    parser.add_argument(
        "--variant", metavar="NAME", help="every check of one variant, its measurements and its worst answers"
    )
    parser.add_argument("--json", action="store_true", help="print report.json instead")


def _add_judge(commands: Any) -> None:
    text = "judge a stored run under another policy, or per-item results that other tools wrote"
    example = "quantgate judge 5f1c --policy configs/policies/strict.yaml"
    files = "quantgate judge --reference fp32.jsonl --candidate int8.jsonl --policy policy.yaml"
    parser = _add(commands, "judge", _judge, text, f"{example}\n  {files}")
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run folder, or a part of a run id that only one run has")
    parser.add_argument("--policy", type=Path, required=True, metavar="FILE", help="the policy's YAML file")
    parser.add_argument("--json", action="store_true", help="print the new report.json instead")
    parser.add_argument(
        "--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)"
    )
    _add_files(parser.add_argument_group("results of other tools, instead of RUN"))


def _add_files(group: Any) -> None:
    what = "the unquantized model's results: a file or folder, NAME=FILE, or a run as RUN:VARIANT"
    group.add_argument("--reference", metavar="FILE", help=what)
    group.add_argument(
        "--candidate", action="append", default=[], metavar="FILE", help="a variant's results, once for each variant"
    )
    group.add_argument(
        "--control", action="append", default=[], metavar="FILE", help="results of a model known to be bad, which must fail"
    )
    formats = "lm_eval, inspect, nemo or table (default: as each file looks)"
    group.add_argument("--format", metavar="NAME", help=f"how the files are to be read: {formats}")
    for column in ("id", "score", "slice", "cluster"):
        group.add_argument(f"--{column}", metavar="COLUMN", help=f"column of a table (default: {column})")
    group.add_argument("--metric", metavar="NAME", help="which score of an item decides, where the file has several")
    group.add_argument("--filter", metavar="NAME", help="which filter of lm-evaluation-harness, where a task has several")
    group.add_argument("--chance", type=float, metavar="SHARE", help="accuracy of guessing, for example 0.25")
    group.add_argument("--out", type=Path, metavar="DIR", help="where the report goes (default: REPORTS/judged-...)")


def _add_promote(commands: Any) -> None:
    text = "move the alias to the variant that passed in a stored run"
    parser = _add(commands, "promote", _promote, text, "quantgate promote 5f1c --alias champion")
    _add_run_argument(parser)
    parser.add_argument("--alias", metavar="NAME", help="another alias than the config's")
    parser.add_argument("--dry-run", action="store_true", help="say what would be promoted; register, move and write nothing")


def _add_compare(commands: Any) -> None:
    text = "show what moved between two stored runs, variant by variant"
    parser = _add(commands, "compare", _compare, text, "quantgate compare 5f1c 77ab")
    parser.add_argument("first", metavar="RUN_A", help="the earlier run: a folder, or a part of its id that only one run has")
    parser.add_argument("second", metavar="RUN_B", help="the later run")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON instead")
    parser.add_argument(
        "--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)"
    )


def _add_policy(commands: Any) -> None:
    what = "say what a policy demands and what it can resolve, or print the schema of policy files"
    parser = _add(commands, "policy", _policy_explain, what, "quantgate policy explain configs/policies/default.yaml")
    actions = parser.add_subparsers(title="what to do", metavar="ACTION", required=True)
    example = "quantgate policy explain configs/policies/default.yaml --golden golden_sets/everyday/v1 --candidates 2"
    explain = _add(actions, "explain", _policy_explain, "say in plain sentences what a policy demands and can resolve", example)
    explain.add_argument("policy", type=Path, metavar="FILE", help="the policy's YAML file")
    explain.add_argument(
        "--golden", type=Path, action="append", default=[], metavar="PATH", help="a golden set, once for each that the run will have"
    )
    explain.add_argument(
        "--candidates", type=int, metavar="N", help="candidates of the run (default: as many as the policy names, else 1)"
    )
    text = "print the JSON Schema of policy files, for editors"
    _add(actions, "schema", _policy_schema, text, "quantgate policy schema > policy.schema.json")


def _add_cache(commands: Any) -> None:
    parser = _add(commands, "cache", _cache, "list, verify or prune the artifacts that runs keep", "quantgate cache list")
    parser.add_argument(
        "action",
        choices=("list", "verify", "prune"),
        help="list: by record. verify: read all bytes. prune: remove what is not whole; what quantgate did not put there is named and left",
    )
    parser.add_argument("--cache", metavar="DIR", help="the cache (default: as a config without 'cache' has it)")
    parser.add_argument("--older-than-days", type=float, metavar="N", help="prune: whole artifacts built longer ago go too")
    parser.add_argument("--json", action="store_true", help="print entries as JSON instead")


def _add_ui(commands: Any) -> None:
    example = "quantgate ui --port 5000"
    parser = _add(commands, "ui", _ui, "open the MLflow UI on the store of the reports", example)
    parser.epilog = f"example:\n  {example}\n\nexit codes: 2 where there is no store, else those of `mlflow ui`"
    parser.add_argument(
        "--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)"
    )
    parser.add_argument("--port", type=int, default=5000, help="port on this machine (default: 5000)")


def _add_run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run folder, or a part of a run id that only one run has")
    parser.add_argument(
        "--reports", type=Path, default=Path("reports"), metavar="DIR", help="folder of the runs (default: reports)"
    )


# ---------------------------------------------------------------------------------------------- commands


def _quantgate(module: str) -> Any:
    return import_module(f"quantgate.{module}")


def _run(arguments: argparse.Namespace) -> int:
    config, pipeline = _quantgate("config"), _quantgate("pipeline")
    asked = config.load_run(arguments.config)
    resume = None
    if arguments.resume is not None:
        resume = _quantgate("runs").find_run(arguments.resume, arguments.reports or asked.out)
    live = sys.stderr.isatty() and not arguments.ci
    display = _quantgate("sinks.progress").ProgressDisplay(sys.stderr, live=live, quiet=arguments.ci)
    options = pipeline.Options(
        fresh=arguments.fresh,
        resume=resume,
        allow_underpowered=arguments.allow_underpowered,
        colour=sys.stdout.isatty() and not arguments.ci,
        ci=config.ci_of_environment() if arguments.ci else None,
    )
    report = pipeline.run(asked, options, display)
    return int(report.exit_code)


def _show(arguments: argparse.Namespace) -> int:
    runs, terminal = _quantgate("runs"), _quantgate("render.terminal")
    folder = runs.find_report(arguments.run, arguments.reports)
    report = runs.load_report(folder)
    if arguments.json:
        print(_quantgate("rundir").encode(report, indent=2))
    elif arguments.variant is not None:
        _known_variant(report, arguments.variant)
        print(terminal.show_variant(report, arguments.variant))
    else:
        print(terminal.verdict_table(report, width=_columns(), folder=folder))
    return 0


def _columns() -> int | None:
    """Columns of the terminal; None where the output goes elsewhere and need not fit."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def _aside(text: str) -> None:
    """Print a note where the command's own output does not go."""
    print(text, file=sys.stderr)


def _known_variant(report: Any, name: str) -> None:
    names = [one.variant for one in report.verdicts]
    if name not in names:
        raise _quantgate("errors").UsageError(f"run {report.run_id} has no variant '{name}'; it has {', '.join(names)}")


def _judge(arguments: argparse.Namespace) -> int:
    pipeline = _quantgate("pipeline")
    asked = _asked(arguments)
    policy = _quantgate("config").load_policy(arguments.policy)
    if asked is not None:
        _quantgate("config").refuse_uncorrected(policy, len(asked.candidates), arguments.policy)
        report, folder = pipeline.judge_files(asked, policy, arguments.out, _aside)
    else:
        report, folder = pipeline.rejudge(_quantgate("runs").find_run(arguments.run, arguments.reports), policy, _aside)
    if arguments.json:
        print(_quantgate("rundir").encode(report, indent=2))
    else:
        print(_quantgate("render.terminal").verdict_table(report, width=_columns(), folder=folder))
    return int(report.exit_code)


_OF_FILES = ("reference", "candidate", "control", "format", "id", "score", "slice", "cluster", "metric", "filter", "chance", "out")


def _asked(arguments: argparse.Namespace) -> Any:
    """What files are to be judged; None where a run is."""
    usage_error = _quantgate("errors").UsageError
    given = [f"--{name}" for name in _OF_FILES if getattr(arguments, name) not in (None, [])]
    if arguments.run is not None:
        if given:
            raise usage_error(f"judge takes a run or files: RUN and {given[0]} do not go together")
        return None
    if arguments.reference is None or not arguments.candidate:
        what = "a RUN" if not given else "--reference" if arguments.reference is None else "--candidate"
        raise usage_error(f"judge needs {what}: either RUN, or --reference FILE and --candidate FILE")
    if arguments.chance is not None and not 0 <= arguments.chance < 1:
        raise usage_error(f"--chance must be at least 0 and less than 1, found {arguments.chance:g}")
    return _quantgate("judging").Asked(
        reference=arguments.reference,
        candidates=tuple(arguments.candidate),
        controls=tuple(arguments.control),
        format=arguments.format,
        options=_read_options(arguments),
        chance_level=arguments.chance,
        reports=arguments.reports,
    )


def _read_options(arguments: argparse.Namespace) -> Any:
    names = ("id", "score", "slice", "cluster", "metric", "filter")
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    return _quantgate("records").ReadOptions(**given)


def _promote(arguments: argparse.Namespace) -> int:
    if arguments.alias is not None:
        _quantgate("names").check_alias(arguments.alias)
    pipeline = _quantgate("pipeline")
    folder = _quantgate("runs").find_run(arguments.run, arguments.reports)
    if arguments.dry_run:
        report, said = pipeline.rehearse(folder, arguments.alias)
        print(said)
        return int(report.exit_code)
    report = pipeline.promote_stored(folder, arguments.alias, _aside)
    print(_quantgate("render.terminal").promotion_line(report))
    if report.exit_code == 0 and not report.promotion.promoted:
        return 4
    return int(report.exit_code)


def _compare(arguments: argparse.Namespace) -> int:
    runs, stage = _quantgate("runs"), _quantgate("stages.compare")
    folders = [runs.find_run(name, arguments.reports) for name in (arguments.first, arguments.second)]
    found = stage.compare(*(_side(folder) for folder in folders))
    if arguments.json:
        print(_quantgate("rundir").encode(_quantgate("rundir").rounded(found), indent=2))
    else:
        print(_quantgate("render.comparison").text(found), end="")
    return 0 if found.compared else 4


def _side(folder: Path) -> Any:
    runs = _quantgate("runs")
    info = runs.load_info(folder)
    return _quantgate("stages.compare").Side(
        run_id=info.run_id, created_at=info.created_at, evidence=runs.load_evidence(folder)
    )


def _policy_explain(arguments: argparse.Namespace) -> int:
    config, golden, plan = _quantgate("config"), _quantgate("golden"), _quantgate("stages.plan")
    words, item_keys = _quantgate("render.policy"), _quantgate("plugins").item_keys
    policy = config.load_policy(arguments.policy)
    if arguments.candidates is not None and arguments.candidates < 1:
        raise _quantgate("errors").UsageError(f"--candidates must be 1 or more, found {arguments.candidates}")
    sets = tuple(golden.reference_of(golden.load(path, item_keys)) for path in arguments.golden)
    if sets and (fault := plan.fault(policy, sets)) is not None:
        raise config.policy_error(arguments.policy, fault.where, fault.what)
    candidates = arguments.candidates or policy.family_size or len(policy.order) or 1
    print(f"policy {policy.name}, sha256 {_quantgate('rundir').digest(policy)}\n")
    print(words.text((words.Paragraph(sentence=policy.why), *plan.explain(policy, sets, candidates))))
    return 0


def _policy_schema(arguments: argparse.Namespace) -> int:
    print(_quantgate("config").policy_schema_text(), end="")
    return 0


def _cache(arguments: argparse.Namespace) -> int:
    caching, errors = _quantgate("caching"), _quantgate("errors")
    days = arguments.older_than_days
    if days is not None and (arguments.action != "prune" or not days >= 0):
        raise errors.UsageError("--older-than-days is for prune, and a number of at least 0")
    cache = caching.place(arguments.cache, _quantgate("config").default_cache())
    if arguments.action == "prune":
        seconds = None if days is None else days * 86400
        found = caching.prune(cache, older_than_s=seconds, now_s=import_module("time").time())
        left = caching.left_alone(cache)
        print(caching.pruned_as_json(found, left) if arguments.json else caching.pruned(found, left, cache))
        return 0
    found = caching.entries(cache, check=arguments.action == "verify")
    print(caching.as_json(found) if arguments.json else caching.table(found, cache))
    bad = [one for one in found if one.state not in ("whole", "in use")]
    return 4 if bad and arguments.action == "verify" else 0


def _ui(arguments: argparse.Namespace) -> int:
    uri = _quantgate("config").tracking_uri_of_environment() or _quantgate("runs").tracking_uri(arguments.reports)
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise _quantgate("errors").UsageError(
            f"there is no store at {uri}; run a config first, or name its folder with --reports"
        )
    shown, page = _ui_address(uri, arguments)
    print(f"MLflow UI on {page} for {shown}; end it with Ctrl-C", flush=True)
    words = ["-m", "mlflow", "ui", "--backend-store-uri", uri, "--host", "127.0.0.1", "--port", str(arguments.port), "--workers", "1"]
    os.execv(sys.executable, [sys.executable, *words])


def _ui_address(uri: str, arguments: argparse.Namespace) -> tuple[str, str]:
    """The store without its password, and where a browser finds the comparison of the variants."""
    server = f"http://127.0.0.1:{arguments.port}"
    return _quantgate("stores").without_password(uri), _quantgate("stores").comparison(uri, arguments.reports, server)


if __name__ == "__main__":
    sys.exit(main())
