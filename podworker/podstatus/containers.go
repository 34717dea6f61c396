package podstatus

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessages is how many bytes the termination messages of all containers of a
// pod share (https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/).
const maxMessages = 12 << 10

// lostExitCode is reported for a container the runtime has lost: 128 + SIGKILL.
const lostExitCode = 137

// lostReason is the reason that goes with lostExitCode.
const lostReason = "ContainerStatusUnknown"

// containerStatuses returns one status per container of the spec, in its order.
func containerStatuses(in *Input) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, 0, len(in.Pod.Spec.Containers))
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		out = append(out, containerStatus(in, c))
	}
	capMessages(out)
	return out
}

func containerStatus(in *Input, c *corev1.Container) corev1.ContainerStatus {
	st := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(bool)}
	newest := in.Observed.Newest(c.Name)
	if newest == nil {
		neverSeen(in, c, &st)
		closeStatus(in, &st)
		return st
	}
	identify(in, newest, &st)
	grant(c, &st)
	st.State = state(in, newest)
	if prev := in.Observed.before(newest); prev != nil && prev.State == StateExited {
		st.LastTerminationState = state(in, prev)
	}
	if w, ok := in.Waiting[c.Name]; ok && newest.State != StateRunning {
		if newest.State == StateExited {
			st.LastTerminationState = st.State
		}
		st.State = corev1.ContainerState{Waiting: w.state()}
	}
	if newest.State == StateRunning {
		started := hasStarted(in, c, newest)
		st.Started = &started
		st.Ready = started && isReady(in, c, newest)
	}
	closeStatus(in, &st)
	return st
}

// closeStatus gives a container that never came to run a final state once the pod
// is stopped for good.
func closeStatus(in *Input, st *corev1.ContainerStatus) {
	if !in.Stopped || st.State.Waiting == nil {
		return
	}
	if st.LastTerminationState.Terminated != nil {
		st.State, st.LastTerminationState = st.LastTerminationState, corev1.ContainerState{}
		return
	}
	st.State = lostState("terminated", st.ContainerID)
}

// identify fills in which container it is and what it was made from.
func identify(in *Input, i *Instance, st *corev1.ContainerStatus) {
	st.ContainerID = in.containerID(i.ID)
	st.RestartCount = i.RestartCount
	if i.Image != "" {
		st.Image = i.Image
	}
	st.ImageID = i.ImageRef
	if i.User != nil {
		st.User = &corev1.ContainerUser{Linux: i.User.DeepCopy()}
	}
}

// grant fills in what the container got of the node: exactly what its spec asks for.
func grant(c *corev1.Container, st *corev1.ContainerStatus) {
	if len(c.Resources.Requests)+len(c.Resources.Limits) > 0 {
		st.AllocatedResources = c.Resources.Requests.DeepCopy()
		st.Resources = c.Resources.DeepCopy()
	}
	for _, m := range c.VolumeMounts {
		st.VolumeMounts = append(st.VolumeMounts, corev1.VolumeMountStatus{
			Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly, RecursiveReadOnly: m.RecursiveReadOnly,
		})
	}
}

// neverSeen fills in the status of a container of which the runtime knows no
// instance. If the last published status shows that one ran, its record was lost.
func neverSeen(in *Input, c *corev1.Container, st *corev1.ContainerStatus) {
	waiting := Waiting{Reason: "ContainerCreating"}
	if w, ok := in.Waiting[c.Name]; ok {
		waiting = w
	}
	st.State.Waiting = waiting.state()
	old := previousContainer(in.Previous, c.Name)
	if old == nil {
		return
	}
	st.RestartCount = old.RestartCount
	switch {
	case old.State.Running != nil:
		st.LastTerminationState = lostState("deleted.  The container used to be Running", old.ContainerID)
		if Restarts(in.Pod.Spec.RestartPolicy, lostExitCode) {
			st.RestartCount++
		}
	case old.State.Terminated != nil:
		st.LastTerminationState = old.State
	default:
		st.LastTerminationState = old.LastTerminationState
	}
}

func lostState(when, id string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode:    lostExitCode,
		Reason:      lostReason,
		Message:     "The container could not be located when the pod was " + when,
		ContainerID: id,
	}}
}

// state translates the state of an instance.
func state(in *Input, i *Instance) corev1.ContainerState {
	switch i.State {
	case StateRunning:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: second(i.StartedAt)}}
	case StateExited:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode:    i.ExitCode,
			Reason:      exitReason(i),
			Message:     i.Message,
			StartedAt:   second(i.StartedAt),
			FinishedAt:  second(i.FinishedAt),
			ContainerID: in.containerID(i.ID),
		}}
	case StateUnknown:
		return lostState("terminated", in.containerID(i.ID))
	case StateCreated:
	}
	return corev1.ContainerState{Waiting: Waiting{Reason: "ContainerCreating"}.state()}
}

// second cuts a time to whole seconds. The zero time stays zero.
func second(t time.Time) metav1.Time {
	return metav1.NewTime(t.Truncate(time.Second))
}

// exitReason fills in the reason for runtimes that give none.
func exitReason(i *Instance) string {
	switch {
	case i.Reason != "":
		return i.Reason
	case i.ExitCode == 0:
		return "Completed"
	}
	return "Error"
}

// hasStarted reports whether the startup probe of a running container has passed.
// While the probe is undecided, as after a restart of the agent, the last
// published status of the same container stands.
func hasStarted(in *Input, c *corev1.Container, i *Instance) bool {
	if c.StartupProbe == nil {
		return true
	}
	if r := result(in.Prober, i.ID, Startup); r != Undecided {
		return r == Success
	}
	old := sameContainer(in, c.Name, i.ID)
	return old != nil && old.Started != nil && *old.Started
}

// isReady reports whether the readiness probe of a started container has passed,
// with the same rule for an undecided one.
func isReady(in *Input, c *corev1.Container, i *Instance) bool {
	if c.ReadinessProbe == nil {
		return true
	}
	if r := result(in.Prober, i.ID, Readiness); r != Undecided {
		return r == Success
	}
	old := sameContainer(in, c.Name, i.ID)
	return old != nil && old.Ready
}

// sameContainer returns the last published status of a container if it is of the
// same instance.
func sameContainer(in *Input, name, id string) *corev1.ContainerStatus {
	old := previousContainer(in.Previous, name)
	if old == nil || old.ContainerID != in.containerID(id) {
		return nil
	}
	return old
}

func previousContainer(st *corev1.PodStatus, name string) *corev1.ContainerStatus {
	if st == nil {
		return nil
	}
	for i := range st.ContainerStatuses {
		if st.ContainerStatuses[i].Name == name {
			return &st.ContainerStatuses[i]
		}
	}
	return nil
}

// capMessages gives every container the same share when the termination messages
// are too long together.
func capMessages(list []corev1.ContainerStatus) {
	var messages []*string
	total := 0
	for i := range list {
		for _, t := range []*corev1.ContainerStateTerminated{list[i].State.Terminated, list[i].LastTerminationState.Terminated} {
			if t != nil {
				messages = append(messages, &t.Message)
				total += len(t.Message)
			}
		}
	}
	if total <= maxMessages {
		return
	}
	share := maxMessages / len(list)
	for _, m := range messages {
		if len(*m) > share {
			*m = (*m)[:share]
		}
	}
}
