package podsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// maxRounds bounds how often one Sync looks again at what it did: to stop a
// container, to start its successor, to remove what is left, to see that it is done.
const maxRounds = 4

// repeatWait is when to look again at something that has to be done once more.
const repeatWait = time.Second

// Sync brings the containers of a pod to what its spec asks for. It ends with
// Terminal once every container has ended and none will be restarted, and when the
// pod has fields that are not honoured and nothing of it runs.
//
// Errors of single containers do not keep the others from starting; they are
// returned together. They are told apart by gRPC code where the runtime gave one.
func (s *Syncer) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Outcome, error) {
	r, err := s.life(ctx, pod)
	if err != nil {
		return podworker.Outcome{}, err
	}
	seen, err := s.current(ctx, pod, r)
	if s.unsure(ctx, pod, r, err) {
		return podworker.Outcome{}, err
	}
	if err := s.check(pod, r); err != nil {
		return s.refuse(pod, r, seen, err)
	}
	if left, limited := deadline(pod, r.status, time.Now()); limited && left <= 0 {
		return s.expire(pod, r), nil
	}
	pod, again, err := s.allocate(ctx, pod, r, seen)
	if err != nil {
		return podworker.Outcome{}, err
	}
	out, err := s.rounds(ctx, pod, r, seen)
	if out.Terminal {
		return out, err
	}
	if left, limited := deadline(pod, r.status, time.Now()); limited {
		out, err = inTime(out, err, left)
	}
	if again > 0 {
		out, err = inTime(out, err, again)
	}
	return out, err
}

// unsure reports whether the status of a pod could not be found out, and tells it once
// for each thing that keeps the runtime from saying.
func (s *Syncer) unsure(ctx context.Context, pod *corev1.Pod, r *record, err error) bool {
	if err == nil {
		r.anew(toldUnsure)
		return false
	}
	if text := err.Error(); ctx.Err() == nil && r.once(toldUnsure, text) {
		s.warning(pod, "", "FailedSync", "error determining status: "+text)
	}
	return true
}

// rounds plans and applies until there is nothing to do. No round does again what
// the one before did: if that left no trace, or a container ended at once, the next
// Sync sees to it.
func (s *Syncer) rounds(ctx context.Context, pod *corev1.Pod, r *record, seen *podstatus.Observed) (podworker.Outcome, error) {
	var last Actions
	for range maxRounds + len(pod.Spec.InitContainers) {
		actions := s.plan(pod, r, seen)
		r.restarting = actions.RestartAll || r.isRestarting() && !anyBut(pod, seen, Ephemeral)
		var regrown error
		if actions.Empty() {
			regrown = s.regrow(ctx, pod, r, &actions)
		}
		if st := s.publish(pod, r, seen, &actions); podstatus.IsTerminal(st.Phase) {
			return podworker.Outcome{Terminal: true}, nil
		}
		if actions.Empty() {
			return outcome(&actions), joined([]error{regrown, s.keepUp(ctx, pod, r)})
		}
		if actions.repeats(&last) {
			return podworker.Outcome{Again: repeatWait}, nil
		}
		r.looked = looked{}
		failed := s.apply(ctx, pod, r, seen, &actions)
		var err error
		if seen, err = s.observe(ctx, pod.UID, exact); err != nil {
			return podworker.Outcome{}, joined(append(failed, err))
		}
		if len(failed) > 0 {
			return s.afterFailure(pod, r, seen, failed)
		}
		last = actions
	}
	return podworker.Outcome{Again: repeatWait}, nil
}

// isRestarting reports whether every container of the pod was being removed to start
// anew, as far as this process or the last status knows.
func (r *record) isRestarting() bool {
	return r.restarting || r.status != nil && slices.ContainsFunc(r.status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.AllContainersRestarting && c.Status == corev1.ConditionTrue
	})
}

// anyBut reports whether the runtime has a container of the pod of another kind.
func anyBut(pod *corev1.Pod, seen *podstatus.Observed, kind Kind) bool {
	return slices.ContainsFunc(seen.Containers, func(c podstatus.Instance) bool { return kindOf(pod, c.Name) != kind })
}

// afterFailure publishes what a round that failed has left. A container that waits
// for its restart does not wait longer because another one cannot be started.
func (s *Syncer) afterFailure(pod *corev1.Pod, r *record, seen *podstatus.Observed, failed []error) (podworker.Outcome, error) {
	actions := s.plan(pod, r, seen)
	if st := s.publish(pod, r, seen, &actions); podstatus.IsTerminal(st.Phase) {
		return podworker.Outcome{Terminal: true}, nil
	}
	return podworker.Outcome{}, within(joined(failed), outcome(&actions).Again)
}

// life returns the record of a pod. A pod synced after its end is the same UID put
// back by its source: it starts anew, so what the runtime has of the old life goes
// first, and only the logs stay.
func (s *Syncer) life(ctx context.Context, pod *corev1.Pod) (*record, error) {
	r := s.record(pod)
	if !r.over {
		return r, nil
	}
	seen, err := s.observe(ctx, pod.UID, rough)
	if err != nil {
		return nil, err
	}
	if err := s.forgetRuntime(ctx, pod.UID, seen); err != nil {
		return nil, fmt.Errorf("start pod %s/%s anew: %w", pod.Namespace, pod.Name, err)
	}
	s.drop(pod.UID)
	return s.record(pod), nil
}

// plan makes a plan and takes its waits into the record, for the status.
func (s *Syncer) plan(pod *corev1.Pod, r *record, seen *podstatus.Observed) Actions {
	r.prune(seen)
	actions := Plan(pod, seen, s.inputs(r))
	due := map[string]bool{}
	for i := range actions.Start {
		due[actions.Start[i].Name] = true
	}
	for _, w := range actions.Wait {
		due[w.Name] = true
		if w.Reason.Reason == reasonCrashLoop {
			r.wait(w.Name, w.Reason)
			s.tellBackoff(pod, r, seen, w.Name)
		}
	}
	r.waits(func(name string) bool { return due[name] })
	return actions
}

// inputs collects what a plan depends on beside the pod and the runtime.
func (s *Syncer) inputs(r *record) Inputs {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Inputs{
		Now: time.Now(), Prober: s.cfg.Prober, Started: startedBefore(r.status), FailedStarts: maps.Clone(r.failedStarts),
		Promised: maps.Clone(r.told[promised]),
		Actuated: r.given.actuated(), ActuatedPod: r.given.had(), MaxBackoff: s.cfg.MaxBackoff, KeepDead: int(s.keepDead.Load()), DeadAge: s.cfg.Limits.DeadAge,
	}
}

// startedBefore returns the ids of the sidecars that have started as far as a status
// knows, nil if there are none.
func startedBefore(st *corev1.PodStatus) map[string]bool {
	if st == nil {
		return nil
	}
	var out map[string]bool
	for i := range st.InitContainerStatuses {
		c := &st.InitContainerStatuses[i]
		if c.Started == nil || !*c.Started || c.State.Running == nil {
			continue
		}
		_, id, found := strings.Cut(c.ContainerID, "://")
		if !found {
			id = c.ContainerID
		}
		if out == nil {
			out = map[string]bool{}
		}
		out[id] = true
	}
	return out
}

// tellBackoff sends one event per end of a container that has to wait.
func (s *Syncer) tellBackoff(pod *corev1.Pod, r *record, seen *podstatus.Observed, name string) {
	if run := seen.Newest(name); run != nil && r.once(toldBackoff, run.ID) {
		s.warning(pod, name, "BackOff", "Back-off restarting failed container "+name+" in pod "+
			pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")")
	}
}

// outcome asks to be called again when the first wait is over.
func outcome(a *Actions) podworker.Outcome {
	var out podworker.Outcome
	for _, w := range a.Wait {
		if w.Until.IsZero() {
			continue
		}
		if d := max(time.Until(w.Until), time.Millisecond); out.Again == 0 || d < out.Again {
			out.Again = d
		}
	}
	return out
}

// publish computes the status and passes it on if it differs from the last one. A
// plan that only kills leaves a pod that has ended for good.
func (s *Syncer) publish(pod *corev1.Pod, r *record, seen *podstatus.Observed, a *Actions) corev1.PodStatus {
	in := s.statusInput(pod, r, seen)
	in.Stopped = a.KillPod && !a.NewSandbox && !seen.Running() && len(seen.Containers) > 0
	return s.emit(pod, r, in)
}

func (s *Syncer) statusInput(pod *corev1.Pod, r *record, seen *podstatus.Observed) podstatus.Input {
	problem, _ := sandboxProblem(pod, seen)
	return podstatus.Input{
		Pod:            pod,
		Previous:       r.status,
		Observed:       r.veil(seen),
		Waiting:        r.waits(always),
		Prober:         s.cfg.Prober,
		SandboxProblem: problem,
		RuntimeName:    s.cfg.RuntimeName,
		HostIPs:        s.node().IPs,
		RestartingAll:  r.restarting,
		Again:          r.all(promised),
		Busy:           r.busy,
		Resize:         r.given.conditions(),
		Actuated:       r.given.actuated(),
		ActuatedPod:    r.given.had(),
		Health:         s.health(pod),
		End:            r.end,
		Now:            time.Now(),
	}
}

// health returns who knows how the things are that the containers of a pod were given.
func (s *Syncer) health(pod *corev1.Pod) func(container string) []corev1.ResourceStatus {
	if s.cfg.Parts.Health == nil {
		return nil
	}
	return func(container string) []corev1.ResourceStatus { return s.cfg.Parts.Health(pod.UID, container) }
}

func (s *Syncer) emit(pod *corev1.Pod, r *record, in podstatus.Input) corev1.PodStatus {
	st := podstatus.Compute(in)
	if r.status != nil && reflect.DeepEqual(*r.status, st) {
		return st
	}
	r.status = st.DeepCopy()
	if s.cfg.OnStatus != nil {
		s.cfg.OnStatus(pod, st)
	}
	return st
}

// check returns why the pod is refused, nil if it is not.
func (s *Syncer) check(pod *corev1.Pod, r *record) error {
	if r.checked == pod {
		return r.refusal
	}
	problems := podspec.Check(pod, podspec.Options{Can: s.cfg.can()})
	for _, p := range problems {
		if p.Support == podspec.Warned && r.once(toldField, p.String()) {
			s.warning(pod, "", "UnsupportedField", p.String())
		}
	}
	r.checked, r.refusal = pod, podspec.Refusal(problems)
	return r.refusal
}

// refuse ends a pod that asks for what this agent cannot do. If another agent has
// it running, it is left as it is.
func (s *Syncer) refuse(pod *corev1.Pod, r *record, seen *podstatus.Observed, why error) (podworker.Outcome, error) {
	reason, message := "UnsupportedField", why.Error()
	if refused, ok := errors.AsType[*podspec.RefusedError](why); ok {
		reason, message = refused.Reason()
	}
	if r.once(toldField, message) {
		s.warning(pod, "", reason, message)
	}
	in := s.statusInput(pod, r, seen)
	if seen.Running() {
		s.emit(pod, r, in)
		return podworker.Outcome{}, why
	}
	r.end = podstatus.End{Phase: corev1.PodFailed, Reason: reason, Message: "Pod was rejected: " + message}
	in.End = r.end
	s.emit(pod, r, in)
	return podworker.Outcome{Terminal: true}, nil
}
