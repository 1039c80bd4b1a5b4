//! Chaos with three hosts that share a PostgreSQL, each behind its own fault proxy: hosts die and are paused,
//! the server dies, and the network to it fails in every way. Clients move from host to host, and ask any
//! host about any task.
//!
//! After each disaster all clients pause. Every host is asked about every task since the last pause, and the
//! history is checked against the promises. No host is required to keep its lease: on an overloaded machine,
//! a host may lose it.

use super::disaster::{Kind, LEASE, Schedule, lasts};
use super::inspectors::Inspection;
use super::report::{Report, SEEN};
use super::shared_state::{CreatedTask, HostAddress, SharedState};
use super::{
    A_DAY, SETTLED, effects, enough, final_violations, require, sagas, setup, start_clients, until_left,
};
use crate::dice::Dice;
use crate::fault_proxy::{Fault, FaultProxy};
use crate::history::{Broken, History};
use crate::postgres::{Flushing, Server};
use crate::tap::stand_aside;
use crate::wait::PATIENCE;
use crate::{Host, Sink};
use rustix::process::Signal;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Concurrent hosts.
const HOSTS: usize = 3;
/// A client moves to another host if it gets no answer within this time.
const MOVE_AFTER: Duration = Duration::from_secs(6);

/// All clients pause within this time, even on a slow machine: a client that waits for the end of a task
/// waits for the end of its host first.
const RESTED: Duration = Duration::from_secs(120);
/// Hosts that noticed that they had lost their lease.
const LOST: &str = "leases lost by hosts that lived";
/// The log line of such a host.
const LOST_IN_LOG: &str = "event=\"cluster.lease_lost\"";

/// A host, and its proxy to the database.
struct ProxiedHost {
    proxy: FaultProxy,
    host: Host,
    address: HostAddress,
}

impl ProxiedHost {
    fn lost(&self) -> usize {
        self.host.log().matches(LOST_IN_LOG).count()
    }
}

struct Cluster {
    server: Arc<Server>,
    schema: String,
    hosts: Vec<ProxiedHost>,
    shared: Arc<SharedState>,
    sink: Sink,
    history: History,
    report: Report,
    /// The number of the last host that was started.
    number: u32,
    /// Leases lost by hosts that have ended since.
    lost: usize,
    /// The number of tasks at the last pause.
    looked_at: usize,
}

/// Runs disasters for this time, and until each kind has happened; reports each in a line. Returns `None` if
/// PostgreSQL is not installed.
///
/// # Panics
/// If a promise was broken.
pub async fn disasters(time: Duration, seed: u64, mut tell: impl FnMut(&str)) -> Option<Report> {
    stand_aside();
    // Killing a process loses nothing that the kernel already has, flushed or not. The server flushes all the
    // same, as a production server does.
    let server = Arc::new(Server::start(Flushing::On)?);
    let mut cluster = Cluster::start(server, seed).await;
    let mut dice = Dice(seed);
    let (stop, stopped) = watch::channel(false);
    let mut clients =
        start_clients(&cluster.shared, &cluster.sink, &mut dice, Some(MOVE_AFTER), &stopped).await;
    let mut schedule = Schedule::new(&mut dice);
    let began = Instant::now();
    while began.elapsed() < time || !schedule.was_emptied() {
        let (live, _) = enough(&cluster.shared, &mut clients).await;
        // At any point of any operation.
        tokio::time::sleep(Duration::from_micros(dice.below(60_000))).await;
        let (kind, is_long) = schedule.draw(&mut dice);
        let at = dice.below(HOSTS as u64) as usize;
        let began_at = began.elapsed();
        let said = cluster.meet(kind, is_long, at, &mut dice).await;
        cluster.report.met(kind.name());
        let rested = cluster.check_at_rest(seed).await;
        let (second, number) = (began_at.as_secs(), cluster.hosts[at].address.number);
        tell(&format!("second {second}: host {number}: {}: {live} live; {said}; {rested}", kind.name()));
    }
    stop.send_replace(true);
    until_left(clients).await;
    Some(cluster.end(seed).await)
}

/// The events that a run must have seen.
fn needed() -> Vec<&'static str> {
    let kinds = Kind::ALL.map(Kind::name).into_iter().filter(|kind| !SEEN.contains(kind));
    SEEN.into_iter().chain(kinds).chain(["calls refused for want of the store", LOST]).collect()
}

impl Cluster {
    async fn start(server: Arc<Server>, seed: u64) -> Self {
        let (sink, schema) = (Sink::start().await, server.schema());
        let mut hosts = Vec::new();
        for number in 1..=HOSTS as u32 {
            let proxy = FaultProxy::before(server.port()).await;
            let setup = setup(&sink)
                .variable("TOOLYARD_STORE", &server.address_at(proxy.port()))
                .set("cluster.schema", &schema)
                .set("cluster.lease", &format!("{}s", LEASE.as_secs()));
            let host = setup.start().await;
            let address = HostAddress { number, port: host.port() };
            hosts.push(ProxiedHost { proxy, host, address });
        }
        let shared = Arc::new(SharedState::new(hosts.iter().map(|proxied| proxied.address).collect()));
        Self {
            server,
            schema,
            hosts,
            shared,
            sink,
            history: History::new(A_DAY.as_nanos() as u64),
            report: Report::new(seed, needed()),
            number: HOSTS as u32,
            lost: 0,
            looked_at: 0,
        }
    }

    /// An inspection that asks these hosts.
    fn inspection(&self, addresses: Vec<HostAddress>) -> Inspection {
        let (shared, sessions) = (self.shared.clone(), Arc::default());
        Inspection { shared, addresses, move_after: Some(MOVE_AFTER), sessions }
    }

    fn addresses(&self) -> Vec<HostAddress> {
        self.hosts.iter().map(|proxied| proxied.address).collect()
    }

    /// The addresses of the other hosts.
    fn others(&self, at: usize) -> Vec<HostAddress> {
        let mut addresses = self.addresses();
        addresses.remove(at);
        addresses
    }

    /// Makes a disaster happen to this host or to the database, and waits until the affected tasks have
    /// ended. Returns a summary.
    async fn meet(&mut self, kind: Kind, is_long: bool, at: usize, dice: &mut Dice) -> String {
        match kind {
            Kind::Kill => self.kill(at, dice).await,
            Kind::Pause => self.pause(at, dice).await,
            Kind::Restart => self.restart(lasts(is_long, dice)).await,
            _ => self.disturb(kind, is_long, at, dice).await,
        }
    }

    async fn kill(&mut self, at: usize, dice: &mut Dice) -> String {
        self.hosts[at].host.kill().await;
        let (killed, gone) = (Instant::now(), self.hosts[at].address);
        self.shared.addresses.send_modify(|addresses| addresses.retain(|address| *address != gone));
        let victims = self.shared.unsettled_of(gone.number);
        // The replacement starts at once, or long after the lease has expired.
        let later = Duration::from_millis(dice.below(2 * LEASE.as_millis() as u64));
        let others = self.inspection(self.others(at));
        let dead = &self.hosts[at].host;
        let another = async {
            tokio::time::sleep(later).await;
            dead.another().await
        };
        let (settled, another) = tokio::join!(others.settle(victims, killed, PATIENCE), another);
        self.replace(at, another);
        format!("another after {} ms; {}", later.as_millis(), self.report.settled(settled))
    }

    /// Puts this host in the place of one that was killed.
    fn replace(&mut self, at: usize, another: Host) {
        self.lost += self.hosts[at].lost();
        self.number += 1;
        let proxied = &mut self.hosts[at];
        proxied.address = HostAddress { number: self.number, port: another.port() };
        proxied.host = another;
        self.shared.addresses.send_replace(self.addresses());
    }

    async fn pause(&mut self, at: usize, dice: &mut Dice) -> String {
        let proxied = &self.hosts[at];
        let (lost, lasts) = (proxied.lost(), lasts(true, dice));
        proxied.host.stop().await;
        let stopped = Instant::now();
        let victims = self.shared.unsettled_of(proxied.address.number);
        // It must not resume before other hosts have its tasks, or the test shows nothing.
        let others = self.inspection(self.others(at));
        let settling = others.settle(victims.clone(), stopped, PATIENCE);
        let (settled, ()) = tokio::join!(settling, tokio::time::sleep(lasts));
        proxied.host.signal(Signal::CONT);
        // Unless the host had already lost its lease, and has held no task since.
        let deadline = Instant::now() + LEASE * 3;
        while proxied.lost() == lost && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.look_everywhere(&victims).await;
        format!("for {} ms; {}", stopped.elapsed().as_millis(), self.report.settled(settled))
    }

    async fn restart(&mut self, lasts: Duration) -> String {
        let began = Instant::now();
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || server.kill()).await.expect("it ends");
        tokio::time::sleep(lasts).await;
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || server.begin()).await.expect("it begins");
        format!("back after {} ms", began.elapsed().as_millis())
    }

    /// Disturbs the connection of a host to the database.
    async fn disturb(&mut self, kind: Kind, is_long: bool, at: usize, dice: &mut Dice) -> String {
        let proxied = &self.hosts[at];
        let (fault, lasts) = (kind.fault(dice), lasts(is_long, dice));
        proxied.proxy.switch(fault);
        if kind == Kind::Reset {
            proxied.proxy.reset();
        }
        let began = Instant::now();
        let victims = self.shared.unsettled_of(proxied.address.number);
        let passes = async {
            tokio::time::sleep(lasts).await;
            proxied.proxy.switch(Fault::None);
        };
        let said = format!("{fault:?} for {} ms", lasts.as_millis());
        if !is_long || !kind.takes_the_lease() {
            passes.await;
            return said;
        }
        let others = self.inspection(self.others(at));
        let (settled, ()) = tokio::join!(others.settle(victims.clone(), began, PATIENCE), passes);
        self.look_everywhere(&victims).await;
        format!("{said}; {}", self.report.settled(settled))
    }

    /// Asks each host about these tasks: all of them must report the same decision.
    async fn look_everywhere(&self, tasks: &[CreatedTask]) {
        let looks = self.addresses().into_iter().map(|one| (self.inspection(vec![one]), tasks.to_vec()));
        let looking: JoinSet<()> = looks.map(|(out, tasks)| async move { out.look(tasks).await }).collect();
        looking.join_all().await;
    }

    /// Pauses all clients, and checks all answers since the last pause against the promises.
    async fn check_at_rest(&mut self, seed: u64) -> String {
        let shared = self.shared.clone();
        let rest = tokio::time::timeout(RESTED, shared.turn.write()).await;
        let _rest = rest.expect("every client comes to the end of its step");
        let began = Instant::now();
        let mut tasks = shared.made_after(self.looked_at);
        let new = tasks.len();
        self.looked_at += new;
        // And the older tasks that are still live.
        let known: HashSet<String> = tasks.iter().map(|made| made.id.clone()).collect();
        tasks.extend(shared.unsettled().into_iter().filter(|made| !known.contains(&made.id)));
        self.look_everywhere(&tasks).await;
        let mut broken = self.history.add(shared.calls_so_far());
        broken.extend(effects::violations(&shared, &self.sink));
        self.require(&broken, seed);
        let (all, ms) = (tasks.len(), began.elapsed().as_millis());
        format!("{new} new tasks, {all} looked at on each host in {ms} ms")
    }

    fn require(&self, broken: &[Broken], seed: u64) {
        let hosts: Vec<_> = self.hosts.iter().map(|proxied| &proxied.host).collect();
        require(&self.shared, broken, &hosts, seed);
    }

    /// Kills every host, starts others, and checks all tasks of the run.
    async fn end(mut self, seed: u64) -> Report {
        for proxied in &mut self.hosts {
            proxied.host.kill().await;
        }
        let killed = Instant::now();
        let unsettled = self.shared.unsettled();
        let mut broken = self.history.add(self.shared.calls_until_kill());
        for at in 0..HOSTS {
            let another = self.hosts[at].host.another().await;
            self.replace(at, another);
        }
        let settled = self.inspection(self.addresses()).settle(unsettled, killed, PATIENCE).await;
        self.report.settled(settled);
        self.inspection(self.addresses()).look(self.shared.all()).await;
        broken.extend(final_violations(&self.shared, &self.sink, &mut self.history));
        let schema = format!("cluster.schema={}", self.schema);
        let store = ["--store", &self.server.address(), "--set", &schema];
        let (sagas, faults) = sagas::check(&self.shared, &self.sink, &self.hosts[0].host, &store).await;
        broken.extend(faults);
        self.require(&broken, seed);
        self.report.met_often(LOST, self.lost);
        let effects = effects::counts(&self.shared, &self.sink);
        self.report.end(&self.shared, &self.history, [effects, sagas]);
        let p99 = self.report.settled_at(99);
        assert!(p99 <= SETTLED, "seed {seed}: one of a hundred tasks that lost their host took {p99:?}");
        self.report
    }
}
