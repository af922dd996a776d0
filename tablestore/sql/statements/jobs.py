"""SHOW JOBS, STOP JOB, DROP JOB, EXECUTE STATEMENT SET: INSERTs that follow their tables."""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.core.errors import NotFound
from tablestore.core.quantities import many
from tablestore.sql.dialect.parser import Parser, Ready
from tablestore.sql.form import Form
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.statements.insert import Insert, reads_tables, started


@dataclass(frozen=True, slots=True)
class ShowJobs:
    """SHOW JOBS."""

    def run(self, session: Session) -> Result:
        return Result(session.jobs.rows(session))


@dataclass(frozen=True, slots=True)
class StopJob:
    """STOP JOB 'name'."""

    name: str

    @staticmethod
    def parse(p: Parser) -> StopJob:
        name = p.string("the name of a job, in single quotes")
        if p.comes("WITH DRAIN"):
            p.refuse("STOP JOB WITH DRAIN", "a job has no windows that wait for their end")
        p.accept("WITH SAVEPOINT")  # what was committed is where it goes on, always
        return StopJob(name)

    def run(self, session: Session) -> Result:
        job = session.jobs.stop(session, self.name)
        state = job.status.state
        return Result(message=f"job {self.name!r} is {state}; the same statement under its name goes on")


@dataclass(frozen=True, slots=True)
class DropJob:
    """DROP JOB [IF EXISTS] 'name'."""

    name: str
    if_exists: bool = False

    def run(self, session: Session) -> Result:
        try:
            session.jobs.drop(session, self.name)
        except NotFound:
            if not self.if_exists:
                raise
            return Result(message=f"there is no job {self.name!r}")
        return Result(message=f"job {self.name!r} is forgotten")


@dataclass(frozen=True, slots=True)
class StatementSet:
    """EXECUTE STATEMENT SET BEGIN … END."""

    inserts: tuple[Insert, ...]

    @staticmethod
    def parse(p: Parser) -> StatementSet:
        p.expect("BEGIN")
        inserts: list[Insert] = []
        while not p.accept("END"):
            at = p.at
            statement = p.statement()
            if not isinstance(statement, Ready) or not isinstance(statement.this, Insert):
                p.fail("INSERT INTO or END is expected", at)
            inserts.append(statement.this)
            p.expect(";")
        if not inserts:
            p.fail("a statement set needs an INSERT", p.piece.start)
        return StatementSet(tuple(inserts))

    def run(self, session: Session) -> Result:
        streaming = session.settings["execution.runtime-mode"] == "streaming"
        if streaming and any(reads_tables(insert.query) for insert in self.inserts):
            return started(session, self.inserts)
        results = [insert.run(session) for insert in self.inserts]
        rows = sum(result.rows_affected or 0 for result in results)
        snapshots = tuple(s for result in results for s in result.snapshots)
        message = f"{many(len(results), 'INSERT')}: {'; '.join(result.message for result in results)}"
        return Result(rows_affected=rows, snapshots=snapshots, message=message)


FORMS = (
    Form(
        "EXECUTE STATEMENT SET BEGIN INSERT …; [INSERT …; …] END",
        "Several INSERTs: in streaming mode one job, in batch mode one after another, each with a commit of "
        "its own.",
        StatementSet.parse,
        family="writing",
        words="EXECUTE STATEMENT SET",
        example="EXECUTE STATEMENT SET BEGIN INSERT INTO shop.orders VALUES (5, 'eve', 2); "
        "INSERT INTO shop.orders VALUES (6, 'fay', 3); END",
    ),
    Form(
        "SHOW JOBS",
        "The jobs that INSERTs in streaming mode made: whether they run, how far they came, why they failed.",
        lambda _: ShowJobs(),
        family="jobs",
        example="SHOW JOBS",
    ),
    Form(
        "STOP JOB 'name' [WITH SAVEPOINT]",
        "End a job behind the batch that it is in. The same statement under the same `pipeline.name` goes on "
        "where it was, always, so that a savepoint is nothing more.",
        StopJob.parse,
        family="jobs",
    ),
    Form(
        "DROP JOB [IF EXISTS] 'name'",
        "Forget a job that does not run, with its checkpoints and state. Its target stays, and remembers how "
        "far the job came.",
        lambda p: DropJob(
            if_exists=p.accept("IF EXISTS"), name=p.string("the name of a job, in single quotes")
        ),
        family="jobs",
        example="DROP JOB IF EXISTS 'orders_by_day'",
    ),
)
