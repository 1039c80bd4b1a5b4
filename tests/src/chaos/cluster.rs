//! Chaos with three hosts that share a PostgreSQL, each behind a fault proxy of its own:
//! hosts die and are paused, the server dies, the way to it breaks in every way that ways
//! break. Clients go from host to host, and ask any of them about any task.
//!
//! After each disaster everybody rests, every task of the time since the last one is looked
//! at on every host, and the history is held against what was promised. No host is asked to
//! keep its lease: on a machine with too much to do, one that lost it has lost it.

use super::board::{Board, Made, Seat};
use super::disaster::{Bag, Kind, LEASE, lasts};
use super::lookers::Lookout;
use super::report::{Report, SEEN};
use super::{A_DAY, CLIENTS, SETTLED, effects, enough, enter, last_words, left, require, setup};
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

/// Hosts at once.
const HOSTS: usize = 3;
/// A client goes to another host if it gets no answer within this time.
const LEAVING: Duration = Duration::from_secs(6);

/// However slow the machine, everybody rests within this time: whoever waits for the end of
/// a task waits for that of its host first.
const RESTED: Duration = Duration::from_secs(120);
/// Hosts that found that they were dead to the others.
const LOST: &str = "leases lost by hosts that lived";
/// What such a host writes to its log.
const LOST_IN_LOG: &str = "lost its hold";

/// A host, and its way to the database.
struct Post {
    proxy: FaultProxy,
    host: Host,
    seat: Seat,
}

impl Post {
    fn lost(&self) -> usize {
        self.host.log().matches(LOST_IN_LOG).count()
    }
}

struct Cluster {
    server: Arc<Server>,
    posts: Vec<Post>,
    board: Arc<Board>,
    sink: Sink,
    history: History,
    report: Report,
    /// The number of the last host that was started.
    number: u32,
    /// Leases that hosts lost which are gone by now.
    lost: usize,
    /// So many tasks there were at the last rest.
    looked_at: usize,
}

/// Lets disasters happen for so long, and until each kind has; tells of each in a line.
/// None where PostgreSQL is not installed.
///
/// # Panics
/// If a promise was not kept.
pub async fn disasters(time: Duration, seed: u64, mut tell: impl FnMut(&str)) -> Option<Report> {
    stand_aside();
    // The kill of a process loses nothing that was not flushed; a server that is killed
    // flushes all the same, as one does.
    let server = Arc::new(Server::start(Flushing::On)?);
    let mut cluster = Cluster::start(server, seed).await;
    let mut dice = Dice(seed);
    let (stop, stopped) = watch::channel(false);
    let mut players = enter(&cluster.board, &cluster.sink, &mut dice, Some(LEAVING), &stopped).await;
    let mut bag = Bag::new(&mut dice);
    let began = Instant::now();
    while began.elapsed() < time || !bag.was_emptied() {
        let (live, finished) = enough(&cluster.board, &mut players).await;
        cluster.report.least(live, finished);
        // At any point of whatever is being done.
        tokio::time::sleep(Duration::from_micros(dice.roll(60_000))).await;
        let (kind, is_long) = bag.draw(&mut dice);
        let at = dice.roll(HOSTS as u64) as usize;
        let began_at = began.elapsed();
        let said = cluster.meet(kind, is_long, at, &mut dice).await;
        cluster.report.met(kind.name());
        let rested = cluster.rest(seed).await;
        let (second, number) = (began_at.as_secs(), cluster.posts[at].seat.number);
        tell(&format!("second {second}: host {number}: {}: {live} live; {said}; {rested}", kind.name()));
    }
    stop.send_replace(true);
    left(players).await;
    Some(cluster.end(seed).await)
}

/// What a run must have seen.
fn needed() -> Vec<&'static str> {
    let kinds = Kind::ALL.map(Kind::name).into_iter().filter(|kind| !SEEN.contains(kind));
    SEEN.into_iter().chain(kinds).chain(["calls refused for want of the store", LOST]).collect()
}

impl Cluster {
    async fn start(server: Arc<Server>, seed: u64) -> Self {
        let (sink, schema) = (Sink::start().await, server.schema());
        let mut posts = Vec::new();
        for number in 1..=HOSTS as u32 {
            let proxy = FaultProxy::before(server.port()).await;
            let setup = setup(&sink)
                .variable("TOOLYARD_STORE", &server.address_at(proxy.port()))
                .set("cluster.schema", &schema)
                .set("cluster.lease", &format!("{}s", LEASE.as_secs()));
            let host = setup.start().await;
            let seat = Seat { number, port: host.port() };
            posts.push(Post { proxy, host, seat });
        }
        let board = Arc::new(Board::new(posts.iter().map(|post| post.seat).collect()));
        Self {
            server,
            posts,
            board,
            sink,
            history: History::new(A_DAY.as_nanos() as u64),
            report: Report::new(seed, needed()),
            number: HOSTS as u32,
            lost: 0,
            looked_at: 0,
        }
    }

    /// Everybody who is asked at these hosts.
    fn lookout(&self, seats: Vec<Seat>) -> Lookout {
        Lookout { board: self.board.clone(), first: CLIENTS, seats, leaving: Some(LEAVING) }
    }

    fn seats(&self) -> Vec<Seat> {
        self.posts.iter().map(|post| post.seat).collect()
    }

    /// The hosts beside this one.
    fn others(&self, at: usize) -> Vec<Seat> {
        let mut seats = self.seats();
        seats.remove(at);
        seats
    }

    /// Lets a disaster happen, to this host or to the database, and sees to it that what it
    /// met comes to its end. Says what came of it.
    async fn meet(&mut self, kind: Kind, is_long: bool, at: usize, dice: &mut Dice) -> String {
        match kind {
            Kind::Kill => self.kill(at, dice).await,
            Kind::Pause => self.pause(at, dice).await,
            Kind::Restart => self.restart(lasts(is_long, dice)).await,
            _ => self.disturb(kind, is_long, at, dice).await,
        }
    }

    async fn kill(&mut self, at: usize, dice: &mut Dice) -> String {
        self.posts[at].host.kill().await;
        let (killed, gone) = (Instant::now(), self.posts[at].seat);
        self.board.seats.send_modify(|seats| seats.retain(|seat| *seat != gone));
        let victims = self.board.unsettled_of(gone.number);
        // Sometimes there is another one at once, sometimes long after the lease.
        let later = Duration::from_millis(dice.roll(2 * LEASE.as_millis() as u64));
        let others = self.lookout(self.others(at));
        let dead = &self.posts[at].host;
        let another = async {
            tokio::time::sleep(later).await;
            dead.another().await
        };
        let (settled, another) = tokio::join!(others.settle(victims, killed, PATIENCE), another);
        self.replace(at, another);
        format!("another after {} ms; {}", later.as_millis(), self.report.settled(settled))
    }

    /// This host is in the place of one that was killed.
    fn replace(&mut self, at: usize, another: Host) {
        self.lost += self.posts[at].lost();
        self.number += 1;
        let post = &mut self.posts[at];
        post.seat = Seat { number: self.number, port: another.port() };
        post.host = another;
        self.board.seats.send_replace(self.seats());
    }

    async fn pause(&mut self, at: usize, dice: &mut Dice) -> String {
        let post = &self.posts[at];
        let (lost, lasts) = (post.lost(), lasts(true, dice));
        post.host.stop().await;
        let stopped = Instant::now();
        let victims = self.board.unsettled_of(post.seat.number);
        // It must not wake before they are with others, or nothing is shown.
        let others = self.lookout(self.others(at));
        let settling = others.settle(victims.clone(), stopped, PATIENCE);
        let (settled, ()) = tokio::join!(settling, tokio::time::sleep(lasts));
        post.host.signal(Signal::CONT);
        // Unless it had lost its lease before, and holds no task since.
        let deadline = Instant::now() + LEASE * 3;
        while post.lost() == lost && Instant::now() < deadline {
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

    /// Disturbs the way of a host to the database.
    async fn disturb(&mut self, kind: Kind, is_long: bool, at: usize, dice: &mut Dice) -> String {
        let post = &self.posts[at];
        let (fault, lasts) = (kind.fault(dice), lasts(is_long, dice));
        post.proxy.switch(fault);
        if kind == Kind::Reset {
            post.proxy.reset();
        }
        let began = Instant::now();
        let victims = self.board.unsettled_of(post.seat.number);
        let passes = async {
            tokio::time::sleep(lasts).await;
            post.proxy.switch(Fault::None);
        };
        let said = format!("{fault:?} for {} ms", lasts.as_millis());
        if !is_long || !kind.takes_the_lease() {
            passes.await;
            return said;
        }
        let others = self.lookout(self.others(at));
        let (settled, ()) = tokio::join!(others.settle(victims.clone(), began, PATIENCE), passes);
        self.look_everywhere(&victims).await;
        format!("{said}; {}", self.report.settled(settled))
    }

    /// Looks at these tasks on each host: what was decided is what all of them say.
    async fn look_everywhere(&self, tasks: &[Made]) {
        let looks = self.seats().into_iter().map(|seat| (self.lookout(vec![seat]), tasks.to_vec()));
        let mut looking: JoinSet<()> =
            looks.map(|(out, tasks)| async move { out.look(tasks).await }).collect();
        while let Some(looked) = looking.join_next().await {
            looked.expect("a looker sees nothing that must not be");
        }
    }

    /// Has everybody rest, and holds all that was said since the last rest against what was
    /// promised.
    async fn rest(&mut self, seed: u64) -> String {
        let board = self.board.clone();
        let rest = tokio::time::timeout(RESTED, board.turn.write()).await;
        let _rest = rest.expect("every client comes to the end of its step");
        let began = Instant::now();
        let mut tasks = board.made_after(self.looked_at);
        let new = tasks.len();
        self.looked_at += new;
        // And the older ones that go on.
        let known: HashSet<String> = tasks.iter().map(|made| made.id.clone()).collect();
        tasks.extend(board.unsettled().into_iter().filter(|made| !known.contains(&made.id)));
        self.look_everywhere(&tasks).await;
        let mut broken = self.history.add(board.next_round());
        broken.extend(effects::judge(&board, &self.sink));
        self.require(&broken, seed);
        format!(
            "{new} new tasks, {} looked at on each host in {} ms",
            tasks.len(),
            began.elapsed().as_millis()
        )
    }

    fn require(&self, broken: &[Broken], seed: u64) {
        let hosts: Vec<_> = self.posts.iter().map(|post| &post.host).collect();
        require(&self.board, broken, &hosts, seed);
    }

    /// Kills every host, starts others, and looks at all that there ever was.
    async fn end(mut self, seed: u64) -> Report {
        for post in &mut self.posts {
            post.host.kill().await;
        }
        let killed = Instant::now();
        let unsettled = self.board.unsettled();
        let mut broken = self.history.add(self.board.next_life());
        for at in 0..HOSTS {
            let another = self.posts[at].host.another().await;
            self.replace(at, another);
        }
        let settled = self.lookout(self.seats()).settle(unsettled, killed, PATIENCE).await;
        self.report.settled(settled);
        self.lookout(self.seats()).look(self.board.all()).await;
        broken.extend(last_words(&self.board, &self.sink, &mut self.history));
        self.require(&broken, seed);
        if self.lost > 0 {
            self.report.counts.insert(LOST, self.lost as u64);
        }
        self.report.end(&self.board, &self.history, effects::tally(&self.board, &self.sink));
        let p99 = self.report.settled_at(99);
        assert!(
            p99 <= SETTLED,
            "seed {seed}: of a hundred tasks that lost their host one took {p99:?} and more"
        );
        self.report
    }
}
