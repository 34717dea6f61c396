package podstatus

import (
	"iter"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessages is how many bytes the termination messages of all containers of a
// pod share (https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/).
const maxMessages = 12 << 10

// lostExitCode is reported for a container the runtime has lost: 128 + SIGKILL.
const lostExitCode = 137

// Reasons of containers that no runtime gives.
const (
	// lostReason goes with lostExitCode.
	lostReason = "ContainerStatusUnknown"
	// ReasonRestartingAll is that of containers that were removed because every
	// container of the pod starts again.
	ReasonRestartingAll = "RestartingAllContainers"

	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonDone         = "Completed"
)

// kind says from which list of the spec a container is.
type kind uint8

const (
	regular kind = iota
	initial
	sidecar
	ephemeral
)

// fillContainers fills in the status of every container of the spec, in its order.
func fillContainers(in *Input, st *corev1.PodStatus) {
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		k := initial
		if IsSidecar(c) {
			k = sidecar
		}
		st.InitContainerStatuses = append(st.InitContainerStatuses, containerStatus(in, c, k))
	}
	st.ContainerStatuses = make([]corev1.ContainerStatus, 0, len(in.Pod.Spec.Containers))
	for i := range in.Pod.Spec.Containers {
		c := containerStatus(in, &in.Pod.Spec.Containers[i], regular)
		if in.Health != nil {
			c.AllocatedResourcesStatus = in.Health(c.Name)
		}
		st.ContainerStatuses = append(st.ContainerStatuses, c)
	}
	for i := range in.Pod.Spec.EphemeralContainers {
		c := (*corev1.Container)(&in.Pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		st.EphemeralContainerStatuses = append(st.EphemeralContainerStatuses, containerStatus(in, c, ephemeral))
	}
	if in.Stopped {
		closeStatuses(in, st)
	}
	capMessages(st)
}

func containerStatus(in *Input, c *corev1.Container, k kind) corev1.ContainerStatus {
	st := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
	if k != ephemeral {
		st.Started = new(bool)
	}
	mounts(in, c, &st)
	newest := in.Observed.Newest(c.Name)
	if newest == nil {
		neverSeen(in, c, k, &st)
		return st
	}
	identify(in, newest, &st)
	grant(in, c, newest, &st)
	st.State = state(in, newest)
	if prev := in.Observed.before(newest); prev != nil && prev.State == StateExited {
		st.LastTerminationState = state(in, prev)
	}
	keepHistory(in, newest, &st)
	wait(in, newest, k, &st)
	switch {
	case k == initial:
		st.Ready = st.State.Terminated != nil && st.State.Terminated.ExitCode == 0
		*st.Started = newest.State == StateRunning
	case newest.State == StateRunning && k != ephemeral:
		started := hasStarted(in, c, newest)
		st.Started = &started
		st.Ready = started && isReady(in, c, newest)
	}
	return st
}

// wait shows why a container could not be started. An init container that is done is
// not started again, whatever was tried.
func wait(in *Input, newest *Instance, k kind, st *corev1.ContainerStatus) {
	w, ok := in.Waiting[st.Name]
	if !ok || newest.State == StateRunning {
		return
	}
	if newest.State == StateExited {
		if k == initial && newest.ExitCode == 0 {
			return
		}
		st.LastTerminationState = st.State
	}
	st.State = corev1.ContainerState{Waiting: w.state()}
}

// keepHistory takes from the last status what the runtime does not know any more
// because dead containers were removed: the count and the end of the run before.
func keepHistory(in *Input, newest *Instance, st *corev1.ContainerStatus) {
	old := previousContainer(in.Previous, st.Name)
	if old == nil {
		return
	}
	st.RestartCount = max(st.RestartCount, old.RestartCount)
	if st.LastTerminationState.Terminated != nil {
		return
	}
	switch {
	case old.ContainerID != in.containerID(newest.ID) && old.State.Terminated != nil:
		st.LastTerminationState = *old.State.DeepCopy()
	case old.LastTerminationState.Terminated != nil:
		st.LastTerminationState = *old.LastTerminationState.DeepCopy()
	}
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
	if i.StopSignal != "" {
		st.StopSignal = &i.StopSignal
	}
}

// mounts fills in the mounts of a container. Of those that are read-only it says
// whether what is mounted below them is, too.
func mounts(in *Input, c *corev1.Container, st *corev1.ContainerStatus) {
	for _, m := range c.VolumeMounts {
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			if (in.RecursiveReadOnly || in.Observed.recursive()) && m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != corev1.RecursiveReadOnlyDisabled {
				mode = corev1.RecursiveReadOnlyEnabled
			}
			s.RecursiveReadOnly = &mode
		}
		st.VolumeMounts = append(st.VolumeMounts, s)
	}
}

// neverSeen fills in the status of a container of which the runtime knows no
// instance. If the last published status shows that one ran, its record was lost.
func neverSeen(in *Input, c *corev1.Container, k kind, st *corev1.ContainerStatus) {
	st.State.Waiting = notYet(in, c).state()
	old := previousContainer(in.Previous, c.Name)
	if old != nil {
		st.RestartCount = old.RestartCount
	}
	switch {
	case in.RestartingAll && old != nil && old.State.Waiting == nil:
		removed(st)
	case k == initial && in.Observed.anyOf(in.Pod.Spec.Containers):
		done(old, st)
	case old == nil:
	case k == ephemeral && old.State.Terminated != nil:
		// It is not started again, so its end is its state for good.
		identity, volumes := old.DeepCopy(), st.VolumeMounts
		*st = *identity
		st.VolumeMounts = volumes
	case old.State.Running != nil:
		st.LastTerminationState = lostState("deleted.  The container used to be Running", old.ContainerID)
		if RestartsContainer(in.Pod, c, lostExitCode) {
			st.RestartCount++
		}
	case old.State.Terminated != nil:
		st.LastTerminationState = old.State
	default:
		st.LastTerminationState = old.LastTerminationState
	}
}

// notYet says why a container that was never seen does not run.
func notYet(in *Input, c *corev1.Container) Waiting {
	if w, ok := in.Waiting[c.Name]; ok {
		return w
	}
	if len(in.Pod.Spec.InitContainers) > 0 {
		return Waiting{Reason: reasonInitializing}
	}
	return Waiting{Reason: reasonCreating}
}

// done is the state of an init container whose record is gone while others run that
// could not have started before it was done.
func done(old *corev1.ContainerStatus, st *corev1.ContainerStatus) {
	st.Ready = true
	if old != nil && old.State.Terminated != nil && old.State.Terminated.ExitCode == 0 {
		st.State, st.ContainerID, st.ImageID = *old.State.DeepCopy(), old.ContainerID, old.ImageID
		return
	}
	st.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason:  reasonDone,
		Message: "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
	}}
}

// removed is the state of a container that was removed to start anew with all others
// of its pod.
func removed(st *corev1.ContainerStatus) {
	const message = "The container is removed because RestartAllContainers in place"
	st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: ReasonRestartingAll, Message: message}}
	st.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: lostExitCode, Reason: ReasonRestartingAll, Message: message,
	}}
	st.RestartCount++
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
	return corev1.ContainerState{Waiting: Waiting{Reason: reasonCreating}.state()}
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
		return reasonDone
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

// previousContainer returns the last published status of a container, nil if there is
// none. Names are unique in a pod.
func previousContainer(st *corev1.PodStatus, name string) *corev1.ContainerStatus {
	if st == nil {
		return nil
	}
	for _, list := range [][]corev1.ContainerStatus{st.ContainerStatuses, st.InitContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// statuses goes through the statuses of all containers of a pod.
func statuses(st *corev1.PodStatus) iter.Seq[*corev1.ContainerStatus] {
	return func(yield func(*corev1.ContainerStatus) bool) {
		for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// capMessages gives every container the same share when the termination messages
// are too long together.
func capMessages(st *corev1.PodStatus) {
	var messages []*string
	total, containers := 0, 0
	for c := range statuses(st) {
		containers++
		for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t != nil {
				messages = append(messages, &t.Message)
				total += len(t.Message)
			}
		}
	}
	if total <= maxMessages {
		return
	}
	share := maxMessages / containers
	for _, m := range messages {
		if len(*m) > share {
			*m = strings.ToValidUTF8((*m)[:share], "")
		}
	}
}
