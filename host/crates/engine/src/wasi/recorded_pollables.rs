//! Polls of runs with a journal: which of several was ready first is recorded.

use crate::guest::state::GuestState;
use toolyard_journal::Source;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi::p2::bindings::io::poll::{Host as _, HostPollable as _};
use wasmtime_wasi::p2::bindings::io::streams::Error;

/// Guests may import another version of WASI 0.2; the linker matches them.
const POLL: &str = "wasi:io/poll@0.2.12";
const ERROR: &str = "wasi:io/error@0.2.12";

type Store<'a> = StoreContextMut<'a, GuestState>;
type Handle = Resource<DynPollable>;

pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut instance = linker.instance(POLL)?;
    instance.func_wrap_async("poll", |mut store: Store<'_>, (list,): (Vec<Handle>,)| {
        Box::new(async move { Ok((poll(store.data_mut(), &list).await?,)) })
    })?;
    instance.func_wrap_async("[method]pollable.ready", |mut store: Store<'_>, (pollable,): (Handle,)| {
        Box::new(async move { Ok((ready(store.data_mut(), &pollable).await?,)) })
    })?;
    instance.func_wrap_async("[method]pollable.block", |mut store: Store<'_>, (pollable,): (Handle,)| {
        Box::new(async move {
            let run = store.data_mut();
            let journal = run.journal()?.clone();
            if let Some(until_ms) = run.timers.get(&pollable.rep()).copied() {
                // Nothing comes back from the wait, so it has no entry: the past shows that it was over.
                if !journal.is_live() {
                    return Ok(());
                }
                journal.wait_long(until_ms).await?;
            }
            run.table.block(borrowed(&pollable)).await
        })
    })?;
    instance.resource("pollable", ResourceType::host::<DynPollable>(), |mut store, rep| {
        let run = store.data_mut();
        // The number is used again.
        run.timers.remove(&rep);
        run.table.drop(Resource::new_own(rep))
    })?;
    let mut instance = linker.instance(ERROR)?;
    instance.func_wrap(
        "[method]error.to-debug-string",
        |mut store: Store<'_>, (error,): (Resource<Error>,)| {
            // The debug form shows frames of the host where they are captured.
            Ok((store.data_mut().table.get(&error)?.to_string(),))
        },
    )
}

async fn poll(run: &mut GuestState, list: &[Handle]) -> wasmtime::Result<Vec<u32>> {
    let len = u32::try_from(list.len())?;
    if len == 0 {
        wasmtime::bail!("empty poll list");
    }
    let journal = run.journal()?.clone();
    let past = journal.with(|recorder| {
        Ok(match recorder.poll(len)? {
            Source::Past(ready) => Some(ready.to_vec()),
            Source::Live => None,
        })
    })?;
    if let Some(ready) = past {
        for index in &ready {
            if let Some(pollable) = list.get(*index as usize) {
                make_ready(run, pollable).await?;
            }
        }
        return Ok(ready);
    }
    let timers: Option<Vec<u64>> =
        list.iter().map(|pollable| run.timers.get(&pollable.rep()).copied()).collect();
    if let Some(nearest) = timers.and_then(|timers| timers.into_iter().min()) {
        journal.wait_long(nearest).await?;
    }
    let handles = list.iter().map(borrowed).collect();
    let ready = run.table.poll(handles).await?;
    journal.with(|recorder| recorder.record_poll(len, &ready))?;
    Ok(ready)
}

async fn ready(run: &mut GuestState, pollable: &Handle) -> wasmtime::Result<bool> {
    let journal = run.journal()?.clone();
    if let Source::Past(is_ready) = journal.with(toolyard_journal::Recorder::ready)? {
        if is_ready {
            make_ready(run, pollable).await?;
        }
        return Ok(is_ready);
    }
    let is_ready = run.table.ready(borrowed(pollable)).await?;
    journal.with(|recorder| recorder.record_ready(is_ready))?;
    Ok(is_ready)
}

/// Brings a pollable into the state that it had when it was ready. A timer has none.
async fn make_ready(run: &mut GuestState, pollable: &Handle) -> wasmtime::Result<()> {
    if run.timers.contains_key(&pollable.rep()) { Ok(()) } else { run.table.block(borrowed(pollable)).await }
}

fn borrowed(pollable: &Handle) -> Handle {
    Resource::new_borrow(pollable.rep())
}
