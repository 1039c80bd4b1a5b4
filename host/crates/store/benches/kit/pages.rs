//! Measurements of the pages of listings and searches, over any store: one owner with a fifth of a
//! million tasks, a thousand owners with the rest, spread over 30 days.

use std::io::Write as _;
use std::time::{Duration, Instant};
use toolyard_store::contract::{START, owner, task};
use toolyard_task::search::{Direction, Filter, OrderBy, Page, Position, Search, SortOrder, Window};
use toolyard_task::store::{After, ListQuery};
use toolyard_task::wire::{RawJson, TaskStatus, Timestamp};
use toolyard_task::{Owner, Task, TaskId, TaskStore};

pub const DAY: i64 = 24 * 60 * 60 * 1000;
pub const DAYS: i64 = 30;
const OWNERS: u64 = 1_000;
const PAGE: u32 = 50;

/// No row is measured for longer, nor more often.
const EACH: Duration = Duration::from_secs(6);
const MOST: usize = 2_000;

const OLDEST: SortOrder = SortOrder { by: OrderBy::Created, direction: Direction::Ascending };
const NEWEST: SortOrder = SortOrder { by: OrderBy::Created, direction: Direction::Descending };
const STALEST: SortOrder = SortOrder { by: OrderBy::Updated, direction: Direction::Ascending };
const LATEST: SortOrder = SortOrder { by: OrderBy::Updated, direction: Direction::Descending };

/// How many tasks there are to be, unless the harness only asks for a list of tests, or for
/// one round of each.
pub fn wanted() -> Option<i64> {
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return None;
    }
    Some(std::env::var("LIST_RECORDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000))
}

/// Prints what was measured, as a table.
pub fn print(of: &str, rows: &[Measured]) {
    let mut out = std::io::stdout().lock();
    let mut print = |line: String| writeln!(out, "{line}").expect("stdout takes it");
    print(format!("| {PAGE} of {of} | p50 µs | p99 µs | most µs | tasks on a page | short pages |"));
    print("|---|---:|---:|---:|---:|---:|".to_owned());
    rows.iter().for_each(|row| print(row.to_string()));
}

/// One of the tasks.
pub struct Record {
    pub task: Task,
    /// The value of the column.
    pub status: i16,
    pub created: i64,
    pub updated: i64,
    /// The rest of the task.
    pub record: String,
}

/// The arguments of each task.
pub fn arguments() -> String {
    format!("\"{}\"", "a".repeat(298))
}

/// The outcome of each ended task, as the column holds it.
pub fn outcome() -> String {
    format!("r\"{}\"", "o".repeat(1021))
}

/// So many tasks, the same in every run.
pub fn records(count: i64) -> impl Iterator<Item = Record> {
    let mut chance = Chance(7);
    (0..count).map(move |number| {
        let owner = if chance.below(5) == 0 { big() } else { small(chance.next() % OWNERS) };
        let created = START - DAYS * DAY + number * DAYS * DAY / count;
        // Most tasks take minutes, some a part of a day.
        let scale = if chance.below(10) == 0 { DAY } else { 10 * 60 * 1000 };
        let updated = (created + chance.below(scale)).min(START);
        let status = match chance.below(1_000) {
            0 => 2,
            1..10 => 1,
            10..910 => 3,
            910..980 => 4,
            _ => 5,
        };
        let task = Task {
            id: chance.id(),
            ttl_ms: (2 * DAYS * DAY).unsigned_abs(),
            created_at: Timestamp(created),
            updated_at: Timestamp(updated),
            arguments: RawJson::empty_object(),
            ..task(&owner)
        };
        let record = serde_json::to_string(&task).expect("encodes");
        Record { task, status, created, updated, record }
    })
}

/// Numbers that look random and are the same in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: i64) -> i64 {
        (self.next() % end.unsigned_abs().max(1)).cast_signed()
    }

    fn id(&mut self) -> TaskId {
        let (high, low) = (u128::from(self.next()), u128::from(self.next()));
        TaskId(uuid::Builder::from_random_bytes((high << 64 | low).to_be_bytes()).into_uuid())
    }
}

fn big() -> Owner {
    owner("big")
}

fn small(number: u64) -> Owner {
    owner(&format!("small {number}"))
}

/// The measurements of one kind of query.
pub struct Measured {
    what: &'static str,
    taken: Vec<Duration>,
    tasks: usize,
    /// Pages with fewer tasks than asked for, though there are more.
    short: usize,
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.taken.len();
        let at = |part: f64| self.taken[((count - 1) as f64 * part) as usize].as_micros();
        let (tasks, short) = (self.tasks as f64 / count as f64, self.short as f64 * 100.0 / count as f64);
        let Self { what, .. } = self;
        write!(f, "| {what} | {} | {} | {} | {tasks:.1} | {short:.0} % |", at(0.5), at(0.99), at(1.0))
    }
}

/// Asks over and over, in ways that `ask` chooses, through the store's port.
async fn row(
    what: &'static str,
    store: &dyn TaskStore,
    mut ask: impl FnMut(&mut Chance) -> Search,
) -> Measured {
    let (mut chance, begun) = (Chance(42), Instant::now());
    let mut measured = Measured { what, taken: Vec::new(), tasks: 0, short: 0 };
    while measured.taken.len() < MOST && (begun.elapsed() < EACH || measured.taken.len() < 20) {
        let search = ask(&mut chance);
        let since = Instant::now();
        let Page { tasks, next } = store.search(&search).await.expect("searches");
        measured.taken.push(since.elapsed());
        measured.tasks += tasks.len();
        measured.short += usize::from(next.is_some() && tasks.len() < PAGE as usize);
    }
    measured.taken.sort_unstable();
    measured
}

async fn listed(
    what: &'static str,
    store: &dyn TaskStore,
    mut ask: impl FnMut(&mut Chance) -> ListQuery,
) -> Measured {
    let mut chance = Chance(42);
    let mut measured = Measured { what, taken: Vec::new(), tasks: 0, short: 0 };
    for _ in 0..MOST {
        let query = ask(&mut chance);
        let since = Instant::now();
        let tasks = store.list(&query).await.expect("lists");
        measured.taken.push(since.elapsed());
        measured.tasks += tasks.len();
    }
    measured.taken.sort_unstable();
    measured
}

fn first(filter: Filter, order: SortOrder) -> Search {
    Search { owner: big(), filter, order, after: None, limit: PAGE }
}

fn of(statuses: &[TaskStatus]) -> Filter {
    Filter { statuses: Some(statuses.to_vec()), ..Filter::default() }
}

fn since(first: i64, length: i64) -> Window {
    Window { after: Some(Timestamp(first)), before: Some(Timestamp(first + length)) }
}

/// A moment of the 30 days that has `after` behind it.
fn moment(chance: &mut Chance, after: i64) -> i64 {
    START - DAYS * DAY + chance.below(DAYS * DAY - after)
}

/// Somewhere in the middle.
fn middle(chance: &mut Chance, until: bool) -> Option<Position> {
    let at = Timestamp(moment(chance, DAY));
    Some(Position { at, id: chance.id(), until: until.then_some(Timestamp(START)) })
}

pub async fn measure(store: &dyn TaskStore) -> Vec<Measured> {
    use TaskStatus::{Cancelled, Completed, Failed, InputRequired, Working};
    let everything = Filter::default;
    let oldest = START - DAYS * DAY;
    let some = some_ids(store).await;
    vec![
        listed("unfiltered: any owner, first page", store, |chance| ListQuery {
            owner: Some(small(chance.next() % OWNERS)),
            after: None,
            limit: PAGE + 1,
        })
        .await,
        listed("unfiltered: big owner, a page in the middle", store, |chance| {
            let after = middle(chance, false).map(|place| After { created_at: place.at, id: place.id });
            ListQuery { owner: Some(big()), after, limit: PAGE + 1 }
        })
        .await,
        row("`filter: {}`: big owner, first page, latest change first", store, |_| {
            first(everything(), LATEST)
        })
        .await,
        row("`filter: {}`: big owner, a page in the middle", store, |chance| Search {
            after: middle(chance, false),
            ..first(everything(), LATEST)
        })
        .await,
        row("the same, 200 tasks to a page", store, |chance| Search {
            after: middle(chance, false),
            limit: 200,
            ..first(everything(), LATEST)
        })
        .await,
        row("status = input_required (0.1 %), by createdAt", store, |_| first(of(&[InputRequired]), OLDEST))
            .await,
        row("status = working, lastUpdatedAt ascending, in the middle", store, |chance| Search {
            after: middle(chance, true),
            ..first(of(&[Working]), STALEST)
        })
        .await,
        row("status = four of five, in the middle", store, |chance| Search {
            after: middle(chance, false),
            ..first(of(&[Working, InputRequired, Failed, Cancelled]), LATEST)
        })
        .await,
        row("status + created window + updated window, a day each", store, |chance| {
            let from = moment(chance, 2 * DAY);
            let (created, updated) = (since(from, DAY), since(from + DAY / 4, DAY));
            first(Filter { created, updated, ..of(&[Completed]) }, LATEST)
        })
        .await,
        row("created window of 10 minutes, by lastUpdatedAt", store, |chance| {
            let created = since(moment(chance, DAY), 10 * 60 * 1000);
            first(Filter { created, ..everything() }, LATEST)
        })
        .await,
        row("created window of 7 hours (just sorted), by lastUpdatedAt", store, |chance| {
            let created = since(moment(chance, DAY), 7 * DAY / 24);
            first(Filter { created, ..everything() }, LATEST)
        })
        .await,
        row("created window of one day, by lastUpdatedAt", store, |chance| {
            let created = since(moment(chance, DAY), DAY);
            first(Filter { created, ..everything() }, LATEST)
        })
        .await,
        row("the same in the oldest day", store, |chance| {
            let created = since(oldest + chance.below(1_000), DAY);
            first(Filter { created, ..everything() }, LATEST)
        })
        .await,
        row("the same, by lastUpdatedAt ascending (newest day)", store, |chance| {
            let created = since(START - DAY - chance.below(1_000), DAY);
            first(Filter { created, ..everything() }, STALEST)
        })
        .await,
        row("updated window of one day, by createdAt descending", store, |chance| {
            let updated = since(moment(chance, DAY), DAY);
            first(Filter { updated, ..everything() }, NEWEST)
        })
        .await,
        row("updated in the oldest day, by createdAt descending", store, |chance| {
            let updated = since(oldest + chance.below(1_000), DAY);
            first(Filter { updated, ..everything() }, NEWEST)
        })
        .await,
        row("failed or cancelled, updated window of one day, by createdAt ascending", store, |chance| {
            let updated = since(moment(chance, DAY), DAY);
            first(Filter { updated, ..of(&[Failed, Cancelled]) }, OLDEST)
        })
        .await,
        row("50 ids", store, |chance| {
            let ids = (0..50).map(|_| some[chance.below(some.len() as i64) as usize]).collect();
            first(Filter { ids: Some(ids), ..everything() }, LATEST)
        })
        .await,
        row("1000 ids", store, |chance| {
            let ids = (0..1_000).map(|_| some[chance.below(some.len() as i64) as usize]).collect();
            first(Filter { ids: Some(ids), ..everything() }, LATEST)
        })
        .await,
    ]
}

/// The crossed cases again, with nothing implied.
pub async fn measure_without_span(store: &dyn TaskStore) -> Vec<Measured> {
    let oldest = START - DAYS * DAY;
    let within = |filter: Filter, order: SortOrder| move |_: &mut Chance| first(filter.clone(), order);
    let created = |from: i64| Filter { created: since(from, DAY), ..Filter::default() };
    let updated = |from: i64| Filter { updated: since(from, DAY), ..Filter::default() };
    let failed = Filter { updated: since(oldest, 20 * DAY), ..of(&[TaskStatus::Failed]) };
    vec![
        row("no span: created window of one day, by lastUpdatedAt", store, |chance| {
            first(created(moment(chance, DAY)), LATEST)
        })
        .await,
        row("no span: the same in the oldest day", store, within(created(oldest), LATEST)).await,
        row("no span: the same, from a later position", store, |chance| Search {
            after: middle(chance, false),
            ..first(created(oldest), LATEST)
        })
        .await,
        row("no span: created in the oldest 70 hours (just sorted), by lastUpdatedAt", store, |_| {
            let created = since(oldest, 70 * DAY / 24);
            first(Filter { created, ..Filter::default() }, LATEST)
        })
        .await,
        row("no span: created in the oldest 90 hours (walked), by lastUpdatedAt", store, |_| {
            let created = since(oldest, 90 * DAY / 24);
            first(Filter { created, ..Filter::default() }, LATEST)
        })
        .await,
        row("no span: updated in the newest day, by createdAt", store, within(updated(START - DAY), OLDEST))
            .await,
        row("no span: failed, updated in the first 20 days, by createdAt", store, within(failed, NEWEST))
            .await,
    ]
}

/// Ids of tasks of the big owner from all over the file.
async fn some_ids(store: &dyn TaskStore) -> Vec<TaskId> {
    let mut chance = Chance(3);
    let mut ids = Vec::new();
    for _ in 0..400 {
        let search = Search { after: middle(&mut chance, false), ..first(Filter::default(), LATEST) };
        let page = store.search(&search).await.expect("searches");
        ids.extend(page.tasks.iter().map(|summary| summary.id));
    }
    ids
}
