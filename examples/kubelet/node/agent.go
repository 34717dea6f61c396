package node

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podsource"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/logs"
	"github.com/nodekit-go/nodekit/runtime/server"
)

// agent is a Node whose runtime has answered.
type agent struct {
	log     *slog.Logger
	catalog *catalog
	memory  *memory
	runtime Runtime
	source  Source
	syncer  *podsync.Syncer
	pool    *podworker.Pool
	// admissions are the pods that hold resources.
	admissions *admissions
	// probing is nil if this Node runs no probes.
	probing *probing
	// own has the agent's id and whether it takes over; see ownership.
	own ownership
	helpers
	// snapshot is what the runtime last showed; not nil while the source runs.
	snapshot atomic.Pointer[runtime.Snapshot]
	// said is the last answer of the runtime to what it can do; nil before the first.
	said atomic.Pointer[runtimeapi.StatusResponse]
	// hinted is when the runtime last told of anything, in nanoseconds of Unix time.
	hinted atomic.Int64
	told   told
	// putBack are pods that have to start anew.
	putBack putBack
	// uncleared are evicted pods that have ended.
	uncleared uncleared
}

// helpers do for an agent what only some nodes need.
type helpers struct {
	metrics  *metrics
	beat     *heartbeat
	events   *events.Recorder
	pictures *pictures
	volumes  *volumes
	// devices is nil where none are handed out.
	devices *deviceDesk
	// containers does what the API is asked of containers.
	containers *server.CRI
	// alignment is nil where another agent looks after the machine.
	alignment *alignment
	// cgroups is nil where the runtime makes those of pods.
	cgroups *podCgroups
	// pressure is nil where nobody is evicted from here.
	pressure *pressure
	// rotator is nil where logs grow as they like.
	rotator *logs.Rotator
	// remote has the pods of a URL; nil: none is configured.
	remote Source
	// cluster and services are nil on a node without an API server.
	cluster  *cluster
	services *services
	grants   *grants
	// leftovers are pods of which something could not be removed.
	leftovers *leftovers
	// watch is told each status; nil: nobody listens.
	watch func(corev1.PodStatus)
}

// told is what has been logged, so that only changes are.
type told struct {
	// seen beats when the runtime answers.
	seen *pulse
	// noted beats when a status could be written.
	noted pulse
	// ready beats when the runtime says it is ready.
	ready pulse
	// conditions are what the runtime last said of itself.
	conditions map[string]bool
	// podCIDRs are the address ranges of pods that the runtime knows.
	podCIDRs string
	// discovered is the version of the catalog in which probes were last looked for.
	discovered uint64
	// hung are the pods whose call is out for too long, and since when.
	hung map[types.UID]time.Time
}

// lateAgent is an agent that exists once the runtime has answered.
type lateAgent struct{ p atomic.Pointer[agent] }

func (l *lateAgent) set(a *agent) { l.p.Store(a) }

// get returns nil before the runtime has answered.
func (l *lateAgent) get() *agent { return l.p.Load() }

// newAgent puts the parts together.
func newAgent(ctx context.Context, n *Node, rt Runtime, mem *memory, sync podsync.Config) (*agent, error) {
	a := &agent{
		log:     n.log,
		catalog: n.catalog,
		memory:  mem,
		runtime: rt,
		source:  n.source,
		own:     ownership{instance: sync.Node.Instance, takeOver: n.cfg.TakeOver},
		told:    told{seen: &n.runtimeSeen, conditions: map[string]bool{}},

		admissions: newAdmissions(n.admissionNode, n.goingDown),
	}
	if err := a.help(ctx, n, &sync); err != nil {
		return nil, err
	}
	var err error
	if a.syncer, err = podsync.New(rt, sync); err != nil {
		return nil, err
	}
	a.pool, err = podworker.New(cleaner{a.syncer, a}, podworker.Config{
		Log:    n.log,
		Resync: n.cfg.Kubelet.SyncFrequency.Duration,
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// help makes the helpers and tells the Syncer of them.
func (a *agent) help(ctx context.Context, n *Node, sync *podsync.Config) (err error) {
	a.helpers = helpers{metrics: n.cfg.metrics, beat: n.beat, events: n.events, watch: n.watch, leftovers: newLeftovers(n.log), remote: n.remote, devices: n.devices, alignment: n.alignment}
	if a.volumes, err = newVolumes(n, a); err != nil {
		return err
	}
	if a.containers, err = n.newCRI(a.runtime); err != nil {
		return err
	}
	if a.pictures, err = newPictures(ctx, n, a); err != nil {
		return err
	}
	if a.probing, err = newProbing(n, a); err != nil {
		return err
	}
	if a.cgroups, err = newPodCgroups(n, n.driver); err != nil {
		return err
	}
	if a.grants, err = newGrants(ctx, n, a.runtime); err != nil {
		return err
	}
	if a.services, err = newServices(n.cfg.Client, n.log); err != nil {
		return err
	}
	if a.cluster, err = newCluster(n, a); err != nil {
		return err
	}
	a.volumes.objects.kept = newKeptObjects(a)
	if a.pressure, err = newPressure(ctx, n, a); err != nil {
		return err
	}
	if a.rotator, err = newRotator(n, a); err != nil {
		return err
	}
	sync.OnStatus, sync.OnEvent = a.setStatus, a.tell
	if a.probing != nil {
		sync.Prober = a.probing
	}
	// Admission asks whether the runtime has strict groups: that may change while this runs.
	a.askStatus(ctx)
	sync.Can |= n.abilities() | podspec.StrictGroups | a.volumes.abilities() | a.pressure.abilities() | a.devices.abilities()
	sync.Parts.Extras, sync.Parts.Health = extras{a}, a.devices.health
	sync.Parts.Images = a.pictures
	sync.Parts.PodCgroups = a.cgroups.parts()
	sync.Parts.Volumes, sync.Parts.Mounts = a.volumes, volume.Mounter{}
	sync.Parts.Grant = a.grants.of
	sync.Parts.References = a.references
	sync.Parts.Acknowledged = a.cluster.acknowledged
	sync.Parts.Listed = a.listed
	sync.Parts.Resizer = a
	a.admissions.alignment, a.admissions.log = n.alignment, n.log
	a.admissions.late.unknown, a.admissions.late.recalled = n.unknown, a.catalog.isRecalled
	return nil
}

// abilities are what is done here for pods beside what podsync does.
func (n *Node) abilities() podspec.Ability {
	can := podspec.Scheduling | podspec.Sysctls | podspec.ReferencedObjects | podspec.UserNamespaces
	if n.cfg.Client != nil {
		can |= podspec.PullSecrets | podspec.RuntimeClasses
	}
	if r := n.resources.p.Load(); r != nil && r.machine.AppArmor {
		can |= podspec.AppArmor
	}
	if hasSELinux() {
		can |= podspec.SELinux
	}
	return can
}

// references are what the variables of a pod may refer to.
func (a *agent) references(ctx context.Context, pod *corev1.Pod) podspec.References {
	list, err := a.services.list(pod)
	if errors.Is(err, errNoServicesYet) && a.catalog.isRecalled(pod.UID) {
		err = nil // it has to run while the API server does not answer
	}
	return podspec.References{Objects: a.volumes.objects.of(ctx, pod), Services: list, Files: volume.Mounter{}, NotYet: err}
}

// run works until ctx ends. The sources start when the runtime has shown what there
// is, so that pods that run already are recognised.
func (a *agent) run(ctx context.Context) error {
	if !a.firstLook(ctx) {
		return nil
	}
	a.devices.remember(a)
	if err := a.cgroups.setup(ctx); err != nil {
		return err
	}
	if err := a.pictures.recover(ctx, a.runtime); err != nil {
		a.log.Warn("who pulled which image is not up to date", "err", err)
	}
	sources, err := a.newMerger()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.pool.Run(ctx) })
	g.Go(func() error { return a.probing.run(ctx) })
	g.Go(func() error { return a.pictures.run(ctx) })
	g.Go(func() error { return a.pictures.settle(ctx, a.runtime, a.log) })
	g.Go(func() error { return a.services.run(ctx) })
	g.Go(func() error { return a.volumes.run(ctx) })
	g.Go(func() error { return a.relist(ctx) })
	g.Go(func() error { return a.pressure.run(ctx) })
	g.Go(func() error { return a.enforce(ctx) })
	g.Go(func() error { return a.rotate(ctx) })
	g.Go(func() error { return a.keepPinned(ctx) })
	g.Go(func() error { return a.listen(ctx) })
	a.read(ctx, g, sources)
	return g.Wait()
}

// deliver takes what the sources have. What this agent made and the whole set does not
// name is told to stop before anything new starts, and so is the old pod of a manifest
// that has changed, also before the whole set is known: no manifest ever runs twice.
func (a *agent) deliver(ctx context.Context, set podsource.Merged) {
	first := set.Complete && !a.catalog.ready()
	changed := a.catalog.replace(set)
	if first {
		a.collect(a.snapshot.Load())
	}
	if set.Complete {
		var anew []types.UID
		changed, anew = a.withPutBack(changed)
		a.countAnew(anew)
		ended := a.endedBefore()
		a.pool.Retain(a.retained(changed, anew))
		for _, pod := range ended {
			a.pool.TerminateOrphan(pod, podworker.Termination{Grace: podworker.MinGrace})
		}
		a.retainDevices()
		a.retainAlignment()
	} else {
		a.succeed(changed)
	}
	a.admit(ctx, changed)
	for _, pod := range changed {
		if _, known := a.pool.State(pod.UID); !known {
			a.metrics.sees(pod)
		}
		a.remember(pod)
		a.pool.Update(a.recall(pod))
	}
	a.cluster.show(set)
	if first || len(changed) > 0 {
		a.log.Info("pods were read", "pods", len(set.Pods), "changed", len(changed), "complete", set.Complete)
	}
}

// endedBefore returns the pods that nobody wants any more and that had ended before. The
// pool just forgets them; what is left of them has to go, too.
func (a *agent) endedBefore() []*corev1.Pod {
	var ended []*corev1.Pod
	for uid, s := range a.pool.All() {
		if s.Done() && !a.catalog.wants(uid) {
			pod := &corev1.Pod{}
			pod.UID = uid
			if old, ok := a.catalog.gonePod(uid); ok {
				pod = old
			}
			ended = append(ended, pod)
		}
	}
	return ended
}

// retained returns the UIDs of the set without the changed manifests whose old version
// has finished, and without those that have to start anew: to the pool these vanish and
// are put back. The former matters to manifests that state their UID; others get a new
// one with a change. A pod of the API server that has finished never starts again: a
// version of it that comes late, from before its end was told, is no other pod.
func (a *agent) retained(changed []*corev1.Pod, anew []types.UID) iter.Seq[types.UID] {
	finished := map[types.UID]bool{}
	for _, uid := range anew {
		finished[uid] = true
	}
	for _, pod := range changed {
		if s, ok := a.pool.State(pod.UID); ok && s.Done() && ofManifest(pod) {
			finished[pod.UID] = true
		}
	}
	return func(yield func(types.UID) bool) {
		for uid := range a.catalog.uids() {
			if !finished[uid] && !yield(uid) {
				return
			}
		}
	}
}

// remember notes that a pod runs in sandboxes this agent did not make.
func (a *agent) remember(pod *corev1.Pod) {
	p := a.snapshot.Load().Pods[pod.UID]
	if p == nil || len(p.Sandboxes) == 0 || a.ownership().owns(p) {
		return
	}
	a.log.Info("pod runs already, made by another agent; it is taken over", "pod", fullName(pod), "uid", string(pod.UID))
	if err := a.memory.adopt(pod.UID, string(pod.UID)); err != nil {
		a.log.Error("taken-over pod could not be noted; it stays if its manifest goes while the kubelet is down",
			"pod", fullName(pod), "uid", string(pod.UID), "err", err)
	}
}

// adopt finds the UID under which a pod runs already, and notes it.
func (a *agent) adopt(pod *corev1.Pod) (types.UID, bool) {
	snap := a.snapshot.Load()
	if snap.Pods[pod.UID] != nil {
		return "", false // it runs under its own UID
	}
	uid, ok := findAdoptable(snap, pod)
	if !ok {
		return "", false
	}
	manifest := string(pod.UID)
	if before, ok := a.memory.adopted()[uid]; ok && before != manifest {
		return "", false // the manifest was edited since
	}
	if err := a.memory.adopt(uid, manifest); err != nil {
		a.log.Error("taken-over pod could not be noted; an edit of its manifest while the kubelet is down will go unnoticed",
			"pod", fullName(pod), "uid", string(uid), "err", err)
	}
	a.log.Info("pod runs already, made by another agent; its UID is kept", "pod", fullName(pod), "uid", string(uid))
	return uid, true
}

// ownership is what this agent may stop at this moment.
func (a *agent) ownership() ownership {
	own := a.own
	own.adopted = a.memory.adopted()
	return own
}

// forget removes what is left of a pod, and what is remembered of it.
func (a *agent) forget(ctx context.Context, uid types.UID) error {
	if err := a.syncer.Forget(ctx, uid); err != nil {
		return err
	}
	a.leftovers.drop(uid)
	a.metrics.forgets(uid)
	a.cluster.forget(uid)
	a.grants.release(uid)
	return errors.Join(a.memory.statuses.drop(uid), a.memory.drop(uid))
}

// setStatus takes the newest status of a pod: containers that run begin to be probed,
// and what has to outlive this process is noted before anybody is told.
func (a *agent) setStatus(pod *corev1.Pod, status corev1.PodStatus) {
	a.probing.follow(pod, &status, a.ending(pod.UID))
	err := a.memory.statuses.note(pod.UID, &status)
	if a.told.noted.beat(time.Now(), err) && err != nil {
		a.log.Error("status of a pod could not be noted; a restart of the kubelet may show it unready for a moment",
			"pod", fullName(pod), "uid", string(pod.UID), "err", err)
	}
	a.catalog.setStatus(pod, status)
	a.metrics.shows(pod, &status)
	if a.watch != nil {
		a.watch(status)
	}
	if err := a.cluster.set(pod, &status); err != nil {
		a.log.Error("how a pod ended could not be noted; it is lost if the kubelet is killed before the API server has it",
			"pod", fullName(pod), "uid", string(pod.UID), "err", err)
	}
}

// ending reports whether a pod is going down.
func (a *agent) ending(uid types.UID) bool {
	s, _ := a.pool.State(uid)
	return s.TerminationRequested()
}

// recall returns a pod that is new to this process with what an earlier one told of
// it last.
func (a *agent) recall(pod *corev1.Pod) *corev1.Pod {
	if _, known := a.pool.State(pod.UID); known {
		return pod
	}
	status, ok := a.cluster.ended(pod.UID)
	if !ok && !ofManifest(pod) && !a.catalog.isRecalled(pod.UID) {
		return pod // an API server knows better
	}
	if !ok {
		status, ok = a.memory.statuses.get(pod.UID)
	}
	if !ok {
		return pod
	}
	recalled := *pod
	recalled.Status = status
	return &recalled
}

// cleaner is the Syncer with steps of the agent's own: a pod starts when the node
// takes it, the probes end with the pod, and of pods that nobody wants any more nothing
// is kept. They are done in the pod's
// worker, so that they never meet a new life of the same pod.
type cleaner struct {
	podworker.Syncer
	agent *agent
}

// SyncTerminating ends the probes that could have a container stopped, then stops all.
func (c cleaner) SyncTerminating(ctx context.Context, pod *corev1.Pod, t podworker.Termination) error {
	defer c.agent.metrics.works(pod.UID, "kill")()
	c.agent.probing.terminate(pod.UID)
	if err := c.Syncer.SyncTerminating(ctx, pod, t); err != nil {
		return err
	}
	c.agent.devices.release(pod.UID)
	c.agent.releaseIf(func(uid types.UID) bool { return uid == pod.UID })
	return nil
}

// SyncTerminated cleans up, and forgets the pod if it is not wanted.
func (c cleaner) SyncTerminated(ctx context.Context, pod *corev1.Pod) error {
	if err := c.Syncer.SyncTerminated(ctx, pod); err != nil {
		return err
	}
	c.agent.probing.forget(pod.UID)
	if err := c.agent.cluster.finished(pod); err != nil {
		return err
	}
	if !c.agent.catalog.unwanted(pod) {
		return c.agent.clearEvicted(ctx, pod)
	}
	err := c.agent.forget(ctx, pod.UID)
	if err == nil || errors.Is(err, podsync.ErrNotAcknowledged) && !ofManifest(pod) {
		return err
	}
	// All of it has stopped, so nobody has to wait for the rest, such as the next pod
	// of this name. A changed manifest runs without the API server: it may be that server.
	c.agent.leftovers.note(pod, err)
	return nil
}

// fullName returns "namespace/name".
func fullName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
