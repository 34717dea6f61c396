package podstatus

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Waiting says why a container that should run does not.
type Waiting struct {
	// Reason is one word such as "CrashLoopBackOff" or "ErrImagePull".
	Reason string
	// Message is for people.
	Message string
}

func (w Waiting) state() *corev1.ContainerStateWaiting {
	return &corev1.ContainerStateWaiting{Reason: w.Reason, Message: w.Message}
}

// End is a state the pod has been put into from outside, such as an eviction.
// The zero value is none.
type End struct {
	// Phase is the phase of the pod from now on; empty: as the containers imply.
	Phase corev1.PodPhase
	// Reason and Message go with it.
	Reason, Message string
	// Conditions are set in addition, such as DisruptionTarget.
	Conditions []corev1.PodCondition
}

// Input is all that the status of a pod depends on.
type Input struct {
	// Pod is the pod; of its status only conditions that others own are used.
	Pod *corev1.Pod
	// Previous is the status published last, nil if there is none.
	Previous *corev1.PodStatus
	// Observed is what the runtime reports, newest first.
	Observed *Observed
	// Waiting has, per container name, why it could not be started. It does not
	// matter for containers that run.
	Waiting map[string]Waiting
	// Prober answers for probes; nil means that no probe has ever run.
	Prober Prober
	// SandboxProblem says why the pod needs a new sandbox, empty if it does not.
	SandboxProblem string
	// RuntimeName goes before container ids, as in "containerd://0123".
	RuntimeName string
	// HostIPs are the addresses of the node, the primary one first.
	HostIPs []string
	// RecursiveReadOnly is true if what runs the pod makes mounts below read-only
	// mounts read-only, too. It need not be said where Observed shows it.
	RecursiveReadOnly bool
	// RestartingAll is true while every container of the pod is removed to start anew.
	RestartingAll bool
	// Resize are the conditions of a resize that is under way: PodResizePending and
	// PodResizeInProgress. Those that are not in the list are over.
	Resize []corev1.PodCondition
	// Actuated has what running containers were last given of CPU and memory, by their id,
	// where that is not what the pod asks for: what a runtime does not report is taken
	// from here. Those that are not in the map have what the pod asks for.
	Actuated map[string]corev1.ResourceRequirements
	// ActuatedPod is what the pod as a whole was last given, where that is not what it asks
	// for; nil: it is.
	ActuatedPod *corev1.ResourceRequirements
	// Health returns how the things are that a container was given of the node, such as
	// devices; nil: nobody says.
	Health func(container string) []corev1.ResourceStatus
	// Again has the runs that were stopped so that their containers start again, by id.
	// They do so however they ended, unless their policy is Never.
	Again map[string]bool
	// Busy is true while something is done to the pod of which the runtime shows a part
	// only, as when a container was stopped whose next run is not there yet. The phase
	// does not become a terminal one meanwhile.
	Busy bool
	// Stopped is true once the containers of the pod have been stopped for good.
	Stopped bool
	// End is what was decided about the pod from outside.
	End End
	// Now is the time of the observation.
	Now time.Time
}

func (in *Input) containerID(id string) string {
	if in.RuntimeName == "" {
		return id
	}
	return in.RuntimeName + "://" + id
}

// static reports whether the pod has no object of its own at an API server.
func (in *Input) static() bool {
	source := in.Pod.Annotations["kubernetes.io/config.source"]
	return source != "" && source != "api"
}

// others returns the conditions the agent does not compute: what was decided from
// outside, then what the pod object and the last status carry.
func (in *Input) others() []corev1.PodCondition {
	var out []corev1.PodCondition
	add := func(list []corev1.PodCondition) {
		for _, c := range list {
			if condition(&corev1.PodStatus{Conditions: out}, c.Type) == nil {
				out = append(out, c)
			}
		}
	}
	for _, c := range in.End.Conditions {
		stamp(in, &c)
		add([]corev1.PodCondition{c})
	}
	add(in.Pod.Status.Conditions)
	if in.Previous != nil {
		add(in.Previous.Conditions)
	}
	return slices.DeleteFunc(out, func(c corev1.PodCondition) bool { return passing(c.Type) })
}

// passing reports whether a condition is the agent's and goes away with its cause.
func passing(kind corev1.PodConditionType) bool {
	return kind == corev1.PodResizePending || kind == corev1.PodResizeInProgress || kind == corev1.AllContainersRestarting
}

// Compute returns the status of a pod. It never leaves a terminal phase that the
// previous status has, and keeps addresses, start time and transition times from
// it where they still hold. Times are cut to whole seconds, as the API keeps them.
func Compute(in Input) corev1.PodStatus {
	if in.Observed == nil {
		in.Observed = &Observed{}
	}
	in.Now = in.Now.Truncate(time.Second)
	st := corev1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		QOSClass:           QOSClass(in.Pod),
		StartTime:          startTime(&in),
	}
	fillContainers(&in, &st)
	grantPod(&in, &st)
	keepClaims(&in, &st)
	setPhase(&in, &st)
	setAddresses(&in, &st)
	st.Conditions = conditions(&in, &st)
	return st
}

// keepClaims keeps what the control plane wrote of the pod's resource claims.
func keepClaims(in *Input, st *corev1.PodStatus) {
	from := in.Previous
	if from == nil || len(in.Pod.Status.ResourceClaimStatuses) > 0 {
		from = &in.Pod.Status
	}
	st.ResourceClaimStatuses = slices.Clone(from.ResourceClaimStatuses)
}

func startTime(in *Input) *metav1.Time {
	if in.Previous != nil && in.Previous.StartTime != nil {
		return in.Previous.StartTime.DeepCopy()
	}
	if n := len(in.Observed.Sandboxes); n > 0 {
		t := second(in.Observed.Sandboxes[n-1].CreatedAt)
		return &t
	}
	t := metav1.NewTime(in.Now)
	return &t
}

func setPhase(in *Input, st *corev1.PodStatus) {
	st.Phase = phase(in, st)
	if in.End.Reason != "" {
		st.Reason, st.Message = in.End.Reason, in.End.Message
	}
	if in.End.Phase != "" {
		st.Phase = in.End.Phase
	}
	if in.Busy && IsTerminal(st.Phase) {
		st.Phase = corev1.PodRunning
		if in.Previous != nil && in.Previous.Phase != "" {
			st.Phase = in.Previous.Phase
		}
	}
	if old := in.Previous; old != nil && IsTerminal(old.Phase) {
		st.Phase = old.Phase
		if st.Reason == "" {
			st.Reason, st.Message = old.Reason, old.Message
		}
	}
}

// setAddresses takes the pod's addresses from its newest ready sandbox, or else
// keeps the last ones: a stopped pod keeps its addresses.
func setAddresses(in *Input, st *corev1.PodStatus) {
	for _, ip := range in.HostIPs {
		st.HostIPs = append(st.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(in.HostIPs) > 0 {
		st.HostIP = in.HostIPs[0]
	}
	ips := podIPs(in)
	for _, ip := range ips {
		st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(ips) == 0 && in.Previous != nil {
		st.PodIPs = append(st.PodIPs, in.Previous.PodIPs...)
	}
	if len(st.PodIPs) > 0 {
		st.PodIP = st.PodIPs[0].IP
	}
}

func podIPs(in *Input) []string {
	sandbox := in.Observed.ReadySandbox()
	switch {
	case sandbox == nil:
		return nil
	case in.Pod.Spec.HostNetwork:
		return in.HostIPs
	}
	return SortIPs(sandbox.IPs, in.HostIPs)
}

// SortIPs returns the addresses of a pod with the family of the node's primary
// address first, else in the order given.
func SortIPs(ips, hostIPs []string) []string {
	if len(ips) < 2 || len(hostIPs) == 0 || isIPv6(ips[0]) == isIPv6(hostIPs[0]) {
		return ips
	}
	var same, other []string
	for _, ip := range ips {
		if isIPv6(ip) == isIPv6(hostIPs[0]) {
			same = append(same, ip)
		} else {
			other = append(other, ip)
		}
	}
	return append(same, other...)
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Unmap().Is6()
}
