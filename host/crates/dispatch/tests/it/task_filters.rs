//! `tasks/list` with filters (SEP-1904, F-1 to F-8), through the application.

use crate::kit::prelude::*;
use toolyard_dispatch::search::{Direction, Filter};
use toolyard_dispatch::{Owner, Timestamp};
use toolyard_store_contract::searching::asked;
use toolyard_store_contract::{ManualClock, START, change, created, owner, result, task};
use toolyard_task::Event;
use toolyard_task::node::NodeStore as _;

const SETTINGS: Settings = Settings { page: 3, ..toolyard_kit::SETTINGS };

struct House {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
    dispatch: Arc<Dispatch>,
    /// The host of the tasks. It lives, since otherwise they would be recovered.
    _holder: MemoryStore,
}

impl House {
    fn new(settings: Settings) -> Self {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let holder = store.node();
        holder.register().now_or_never().expect("in memory").expect("registers");
        let dispatch = application(settings, stores(&store), clock.clone(), Vec::new());
        Self { clock, store, dispatch, _holder: holder }
    }

    async fn list(&self, caller: &Caller, params: &Value) -> Result<Value, Fault> {
        let tasks = self.dispatch.tasks().await?;
        let result = tasks.list_tasks(caller, Some(&RawJson::of(params))).await?;
        Ok(result.decode().expect("JSON"))
    }

    /// The ids of all pages, with the same params for each cursor.
    async fn all(&self, params: &Value) -> Vec<String> {
        let (mut all, mut params) = (Vec::new(), params.clone());
        for _ in 0..100 {
            let page = self.list(&caller("a"), &params).await.expect("lists");
            let tasks = page["tasks"].as_array().expect("tasks");
            assert!(tasks.len() <= SETTINGS.page as usize);
            all.extend(tasks.iter().map(|task| task["taskId"].as_str().expect("an id").to_owned()));
            match page.get("nextCursor") {
                Some(next) => params["cursor"] = next.clone(),
                None => return all,
            }
        }
        panic!("there is no end to {params}");
    }

    /// Five tasks of `a`, a second apart, one in each state; the first to be
    /// created is the last to change, a minute later.
    async fn five(&self) -> Vec<Task> {
        let mut made = Vec::new();
        for number in 0..5 {
            self.clock.set(START + number * 1_000);
            made.push(created(&*self.store, task(&owner("a"))).await);
        }
        for (number, task) in made.iter_mut().enumerate().skip(1).rev() {
            self.clock.set(START + 60_000 - number as i64 * 1_000);
            let end = |outcome| Event::Finished { fence: task.fence, outcome, message: None };
            let event = match number {
                1 => asked(task),
                2 => end(result()),
                3 => end(Outcome::Result { is_error: true, result: RawJson::empty_object() }),
                _ => Event::Cancelled { message: "so".into() },
            };
            *task = change(&*self.store, task.id, &event).await.expect("is there").expect("is live");
        }
        made
    }
}

fn caller(name: &str) -> Caller {
    Caller { owner: Some(owner(name)), ..Caller::local(RawJson::empty_object()) }
}

fn ids(made: &[Task], numbers: &[usize]) -> Vec<String> {
    numbers.iter().map(|number| made[*number].id.to_string()).collect()
}

/// As the protocol writes it.
fn time(ms: i64) -> String {
    Timestamp(START + ms).to_string()
}

// By the last change, the latest first: 1, 2, 3, 4; then 0, which never changed.

#[tokio::test]
async fn f_6_a_cursor_is_good_for_its_filter_its_order_and_its_principal_only() {
    let house = House::new(SETTINGS);
    for name in ["a", "b"] {
        for _ in 0..5 {
            created(&*house.store, task(&owner(name))).await;
        }
    }
    let given = json!({"filter": {"status": ["working", "failed"], "createdAfter": time(-1)}});
    let page = house.list(&caller("a"), &given).await.expect("lists");
    let cursor = &page["nextCursor"];
    assert!(cursor.is_string());
    let with = |params: &Value| {
        let mut params = params.clone();
        params["cursor"] = cursor.clone();
        params
    };
    let rest = house.list(&caller("a"), &with(&given)).await.expect("goes on");
    assert_eq!(rest["tasks"].as_array().map(Vec::len), Some(2));
    // The same filter, written differently.
    let same = json!({
        "status": ["failed", "working", "failed"],
        "createdAfter": Timestamp(START - 1).to_string().replace('Z', "+00:00"),
        "order": "desc",
        "methods": ["tools/call"],
        "unknown": 5,
    });
    assert_eq!(house.list(&caller("a"), &with(&same)).await.expect("goes on"), rest);
    for other in [
        json!({}),
        json!({"filter": {}}),
        json!({"filter": {"status": ["working"], "createdAfter": time(-1)}}),
        json!({"filter": {"status": ["working", "failed"]}}),
        json!({"filter": {"status": ["working", "failed"], "createdAfter": time(-2)}}),
        json!({"filter": {"status": ["working", "failed"], "createdBefore": time(-1)}}),
        json!({"filter": {"status": ["working", "failed"], "lastUpdatedAfter": time(-1)}}),
        json!({"filter": {"status": ["working", "failed"], "createdAfter": time(-1), "order": "asc"}}),
        json!({"filter": {"status": ["working", "failed"], "createdAfter": time(-1), "orderBy": "createdAt"}}),
        json!({"filter": {"status": ["working", "failed"], "createdAfter": time(-1), "taskIds": []}}),
        json!({"filter": {"status": ["working", "failed"], "createdAfter": time(-1), "methods": []}}),
    ] {
        let fault = house.list(&caller("a"), &with(&other)).await.expect_err("is refused");
        assert!(matches!(fault, Fault::InvalidCursor), "{other}: {fault:?}");
        assert_eq!(fault.rpc().code, -32602);
    }
    let fault = house.list(&caller("b"), &with(&given)).await.expect_err("is refused");
    assert!(matches!(fault, Fault::InvalidCursor), "another principal: {fault:?}");
    // Nor is the cursor of the plain list valid with a filter.
    let plain = house.list(&caller("a"), &json!({})).await.expect("lists");
    let params = json!({"filter": {}, "cursor": plain["nextCursor"]});
    assert!(matches!(house.list(&caller("a"), &params).await, Err(Fault::InvalidCursor)));
}

/// Without a filter, a change moves no task (T-33). A client sees tasks that belong to anyone only if it knows their
/// ids, so no list shows them.
#[tokio::test]
async fn f_8_only_a_filter_changes_the_order_and_a_principal_finds_its_own_tasks_and_the_operator_all() {
    let house = House::new(SETTINGS);
    let made = house.five().await;
    let by_creation = ids(&made, &[0, 1, 2, 3, 4]);
    let latest_change_first = ids(&made, &[1, 2, 3, 4, 0]);
    assert_eq!(house.all(&json!({})).await, by_creation);
    assert_eq!(house.all(&json!({"_meta": {}, "unknown": 5})).await, by_creation);
    assert_eq!(house.all(&json!({"filter": {}})).await, latest_change_first);
    // F-3: an unknown criterion is ignored, and the rest applied.
    assert_eq!(house.all(&json!({"filter": {"unknown": 5}})).await, latest_change_first);
    assert_eq!(house.all(&json!({"methods": ["tools/call"]})).await, latest_change_first);
    let tasks = tasks_of(&house.dispatch).await;
    let result = tasks.list_tasks(&caller("a"), None).await.expect("params may be absent");
    assert!(result.as_str().contains(&by_creation[0]));

    house.clock.set(START + 59_100);
    let others = created(&*house.store, task(&Owner::Anyone)).await;
    let all: Vec<TaskId> = made.iter().chain([&others]).map(|task| task.id).collect();
    let find = async |caller: &Caller| {
        let page = tasks.find_tasks(caller, Filter::default(), Direction::Ascending, None, 9).await;
        page.expect("searches").tasks.iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!(find(&Caller::operator()).await, all);
    assert_eq!(find(&caller("a")).await, all[..5]);
    for nobody in [caller("b"), stranger(), anonymous(None)] {
        assert_eq!(find(&nobody).await, []);
    }
    // The list of the protocol gives the operator everything or nothing.
    let refused = house.list(&Caller::operator(), &json!({"filter": {}})).await;
    assert!(matches!(refused, Err(Fault::InvalidParams(_))), "{refused:?}");
}

#[tokio::test]
async fn t_30_there_is_no_list_where_tasks_are_off() {
    let house = House::new(Settings { tasks: false, ..SETTINGS });
    for params in [json!({}), json!({"filter": {}}), json!({"filter": 5})] {
        assert!(matches!(house.list(&caller("a"), &params).await, Err(Fault::TasksOff)), "{params}");
    }
}

/// A change that this host makes is counted; a page that follows the number misses none.
#[tokio::test]
async fn a_change_of_a_task_is_counted_for_those_who_look_at_many() {
    let house = House::new(SETTINGS);
    let mine = house.five().await;
    let mut changes = house.dispatch.task_changes();
    let (tasks, id) = (tasks_of(&house.dispatch).await, mine[0].id.to_string());
    tasks.list_tasks(&caller("a"), None).await.expect("lists");
    changes.mark_unchanged();
    let before = *changes.borrow();
    tasks.task(&caller("a"), &id).await.expect("is there");
    assert_eq!(*changes.borrow(), before, "a read changes nothing");
    tasks.cancel_task(&Caller::operator(), &id).await.expect("is live");
    assert!(changes.has_changed().expect("the host is there"));
    assert!(*changes.borrow_and_update() > before);
    let load = house.dispatch.load();
    assert_eq!((load.waiting, load.working, load.asking, load.runs, load.questions), (0, 0, 0, 0, 0));
    assert_eq!((load.bounds, load.live_tasks), (SETTINGS.admission, SETTINGS.live_tasks));
}
