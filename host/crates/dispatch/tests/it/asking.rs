//! A task's question between the store and its client, when the store fails.

use crate::kit::prelude::*;

/// The store fails while the task waits: the question stays open, is sent only once, and its answer
/// reaches the guest (H-20, IR-1).
#[tokio::test]
async fn a_wait_for_answers_outlasts_a_store_that_fails_for_a_while() {
    let (store, faulty) = faulty(0);
    let dispatch = dispatch(&store, faulty.clone(), vec![tool("asks", asks)]);
    let caller = local_caller();
    let client = Client::default();
    let id = create(&dispatch, &caller, "asks", Arc::new(client.clone())).await;
    eventually("the question", || !client.asked().is_empty()).await;
    // The wait's next operation fails, and the one after it.
    faulty.intercept.failures.store(2, Ordering::SeqCst);
    eventually("the faults to be met", || faulty.intercept.failures.load(Ordering::SeqCst) == 0).await;
    assert_eq!(client.asked().len(), 1, "asked once");
    dispatch.take_response(&caller, &client.asked()[0], Ok(RawJson::trusted(YES))).await.expect("kept");
    let result = result_of(&dispatch, &caller, &id).await;
    assert!(result.contains("accept"), "{result}");
    assert_eq!(client.asked().len(), 1);
}

/// A wait goes on when its client leaves. It then sends no new question, so that the client can
/// still answer the one that it saw, however long that takes (IR-7).
#[tokio::test]
async fn ir_7_waits_whose_clients_have_left_ask_no_more() {
    let (store, tasks) = faulty(0);
    let dispatch = dispatch(&store, tasks, vec![tool("asks", asks)]);
    let caller = local_caller();
    let id = create_alone(&dispatch, &caller, "asks").await;
    let clients = [Client::default(), Client::default(), Client::default()];
    let wait = |client: &Client| {
        let (dispatch, caller, id) = (dispatch.clone(), caller.clone(), id.clone());
        let channel = Arc::new(client.clone());
        tokio::spawn(async move { tasks_of(&dispatch).await.task_result(&caller, &id, channel).await })
    };
    let mut waits = Vec::new();
    for client in &clients {
        waits.push(wait(client));
        eventually("a question", || clients.iter().any(|client| !client.asked().is_empty())).await;
    }
    clients.iter().for_each(Client::leave);
    // Each wait checks every second whether something is left for it to do.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let asked: Vec<String> = clients.iter().flat_map(Client::asked).collect();
    assert_eq!(asked.len(), 1, "asked once");
    // A new client that is connected is asked, and the first one may still answer.
    let there = Client::default();
    waits.push(wait(&there));
    eventually("the question to be asked again", || !there.asked().is_empty()).await;
    dispatch.take_response(&caller, &asked[0], Ok(RawJson::trusted(YES))).await.expect("kept");
    for wait in waits {
        let result = wait.await.expect("no panic").expect("a task").expect("a result");
        assert!(result.as_str().contains("accept"), "{}", result.as_str());
    }
    assert_eq!(there.asked().len(), 1);
}
