//! The loop that sends probes at their rate and shares the table of results.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use gwready_core::facts::Reading;
use gwready_core::facts::envoy::EnvoyAdmin;
use gwready_core::facts::probes::ProbeTable;
use gwready_core::judge::probe_method::serving_listener;
use gwready_core::net::{Endpoint, Front};
use gwready_core::time::Window;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::attempt::{Answer, Task, Tools};
use super::lane::{Lane, LaneKey};
use super::settings::ProbeSettings;
use super::table::Results;
use crate::clock;
use crate::observe::envoy::LatestAdmin;

/// What the observer holds of the prober. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ProbeHandle {
    endpoints: watch::Sender<Option<Vec<Endpoint>>>,
    table: Arc<ArcSwap<Reading<ProbeTable>>>,
}

impl ProbeHandle {
    /// Sets what is probed: every judged address × expected port. The first call begins the first round.
    pub fn set_endpoints(&self, endpoints: &[Endpoint]) {
        self.endpoints.send_if_modified(|current| {
            let differs = current.as_deref() != Some(endpoints);
            if differs {
                *current = Some(endpoints.to_vec());
            }
            differs
        });
    }

    /// The latest table; [`Reading::NotRead`] before the first endpoints were set.
    #[must_use]
    pub fn table(&self) -> Arc<Reading<ProbeTable>> {
        self.table.load_full()
    }
}

/// The prober. [`Prober::run`] owns the loop.
pub struct Prober {
    settings: ProbeSettings,
    envoy: LatestAdmin,
    wake: Box<dyn Fn() + Send + Sync>,
    endpoints: watch::Receiver<Option<Vec<Endpoint>>>,
    shared: Arc<ArcSwap<Reading<ProbeTable>>>,
    tools: Arc<Tools>,
    lanes: BTreeMap<LaneKey, Lane>,
    results: Results,
    /// Envoy's last good word: a port does not change its kind because the admin was slow once.
    known: Option<EnvoyAdmin>,
    /// `secrets_not_ready` of the port's listener at the last probe of a front.
    secrets: BTreeMap<Front, u64>,
    running: JoinSet<(LaneKey, Task, Answer)>,
}

impl Prober {
    /// A prober and its handle. `wake` is called when a result changed so that a judgement could: it must not block.
    #[must_use]
    pub fn new(settings: ProbeSettings, envoy: LatestAdmin, wake: impl Fn() + Send + Sync + 'static) -> (Self, ProbeHandle) {
        let (sender, endpoints) = watch::channel(None);
        let shared = Arc::<ArcSwap<Reading<ProbeTable>>>::default();
        let handle = ProbeHandle { endpoints: sender, table: Arc::clone(&shared) };
        let prober = Self {
            settings,
            envoy,
            wake: Box::new(wake),
            endpoints,
            shared,
            tools: Arc::default(),
            lanes: BTreeMap::new(),
            results: Results::default(),
            known: None,
            secrets: BTreeMap::new(),
            running: JoinSet::new(),
        };
        (prober, handle)
    }

    /// Probes until the last handle is gone.
    pub async fn run(mut self) {
        let mut ticks = interval(self.settings.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.start(|_| true),
                changed = self.endpoints.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.replan();
                    self.start(|lane| !lane.answered);
                }
                Some(ended) = self.running.join_next() => {
                    match ended.map_err(tokio::task::JoinError::try_into_panic) {
                        Ok((key, task, answer)) => self.note(key, &task, answer),
                        // No half prober: whoever waits for this task ends the agent.
                        Err(Ok(panic)) => std::panic::resume_unwind(panic),
                        Err(Err(_cancelled)) => {}
                    }
                }
            }
        }
    }

    /// Makes the lanes follow the endpoints.
    fn replan(&mut self) {
        let planned = self.endpoints.borrow_and_update().clone().unwrap_or_default();
        let mut addresses = BTreeMap::<Front, Vec<IpAddr>>::new();
        for endpoint in &planned {
            addresses.entry(endpoint.front()).or_default().push(endpoint.address);
        }
        let mut wanted = BTreeMap::<LaneKey, Vec<IpAddr>>::new();
        for (front, addresses) in addresses {
            if self.settings.enabled {
                wanted.insert(LaneKey { front, explicit: None }, addresses.clone());
            }
            for (index, _) in self.settings.explicit.iter().enumerate().filter(|(_, probe)| probe.port == front.port) {
                wanted.insert(LaneKey { front, explicit: Some(index) }, addresses.clone());
            }
        }
        self.lanes.retain(|key, _| wanted.contains_key(key));
        for (key, addresses) in wanted {
            self.lanes.entry(key).or_default().set_addresses(addresses);
        }
        let forgotten = self.results.retain(&planned);
        let done = self.finish_round();
        self.publish(forgotten || done);
    }

    /// Starts the probe of every lane that is meant and has none on its way.
    fn start(&mut self, is_meant: impl Fn(&Lane) -> bool) {
        if let Reading::Observed { value, .. } = &*self.envoy.get() {
            self.known = Some(value.clone());
        }
        let due: Vec<(LaneKey, Endpoint)> = self
            .lanes
            .iter()
            .filter(|(_, lane)| !lane.in_flight && is_meant(lane))
            .filter_map(|(key, lane)| Some((*key, lane.current(key.front.port)?)))
            .collect();
        for (key, endpoint) in due {
            let task = self.task(key, endpoint);
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.in_flight = true;
            }
            let (tools, deadline) = (Arc::clone(&self.tools), Instant::now() + self.settings.timeout);
            self.running.spawn(async move {
                let answer = task.clone().run(tools, deadline).await;
                (key, task, answer)
            });
        }
    }

    fn task(&mut self, key: LaneKey, endpoint: Endpoint) -> Task {
        let admin = self.known.as_ref();
        match key.explicit.and_then(|index| self.settings.explicit.get(index)) {
            Some(probe) => Task::explicit(endpoint, admin, probe),
            None => {
                let secrets =
                    admin.and_then(|admin| serving_listener(admin, endpoint.port)).and_then(|listener| listener.secrets_not_ready);
                let before = secrets.and_then(|now| self.secrets.insert(key.front, now));
                let rose = secrets.zip(before).is_some_and(|(now, before)| now > before);
                Task::built_in(endpoint, admin, self.settings.sni.as_deref(), rose)
            }
        }
    }

    fn note(&mut self, key: LaneKey, task: &Task, answer: Answer) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.in_flight = false;
        let planned = self.endpoints.borrow().as_ref().is_some_and(|endpoints| endpoints.contains(&task.endpoint));
        if !planned {
            // The address went while it was probed; the lane's next one has its turn now.
            return;
        }
        let name = task.explicit.as_ref().map(super::ExplicitProbe::name).unwrap_or_default();
        let before = self.results.failures(task.endpoint, &name);
        let fall = self.settings.fall;
        let news = self.results.record(task.endpoint, task.explicit.as_ref(), answer, fall, clock::mono());
        let failed = self.results.failures(task.endpoint, &name) > before;
        lane.note(task.endpoint.address, failed, before, fall);
        let done = self.finish_round();
        self.publish(news || done);
    }

    fn finish_round(&mut self) -> bool {
        let over = self.endpoints.borrow().is_some() && self.lanes.values().all(|lane| lane.answered);
        over && self.results.finish_first_round()
    }

    fn publish(&self, news: bool) {
        let now = clock::mono();
        let begin = self.results.table().results.iter().map(|result| result.at).min().unwrap_or(now).min(now);
        let reading = Reading::Observed { value: self.results.table().clone(), window: Window { begin, end: now } };
        self.shared.store(Arc::new(reading));
        if news {
            (self.wake)();
        }
    }
}

/// One probe of every endpoint at once, for `gwready check`: no rotation, no rate.
pub fn probe_all(settings: &ProbeSettings, endpoints: &[Endpoint], admin: Option<&EnvoyAdmin>) -> impl Future<Output = ProbeTable> + use<> {
    let tools = Arc::<Tools>::default();
    let mut running = JoinSet::new();
    let deadline = Instant::now() + settings.timeout;
    for endpoint in endpoints {
        let explicit = settings.explicit.iter().filter(|probe| probe.port == endpoint.port);
        let mut tasks: Vec<Task> = explicit.map(|probe| Task::explicit(*endpoint, admin, probe)).collect();
        if settings.enabled {
            tasks.push(Task::built_in(*endpoint, admin, settings.sni.as_deref(), false));
        }
        for task in tasks {
            let tools = Arc::clone(&tools);
            running.spawn(async move { (task.clone(), task.run(tools, deadline).await) });
        }
    }
    async move {
        let mut results = Results::default();
        for (task, answer) in running.join_all().await {
            results.record(task.endpoint, task.explicit.as_ref(), answer, 1, clock::mono());
        }
        results.finish_first_round();
        results.table().clone()
    }
}
