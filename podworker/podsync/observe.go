package podsync

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// care says what to do about a sandbox or container that is listed but whose status
// the runtime cannot tell.
type care uint8

const (
	// exact observations fail: no decision about starting is made without the facts.
	exact care = iota
	// rough observations take what the list says: one broken container must not keep
	// a pod from being stopped and removed.
	rough
)

// observe asks the runtime for everything it has of one pod. An error means that
// nothing is known, never that nothing is there.
func (s *Syncer) observe(ctx context.Context, uid types.UID, how care) (*podstatus.Observed, error) {
	selector := map[string]string{podspec.LabelPodUID: string(uid)}
	sandboxes, err := s.listSandboxes(ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes of pod %s: %w", uid, err)
	}
	containers, err := s.listContainers(ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("list containers of pod %s: %w", uid, err)
	}
	seen := &podstatus.Observed{}
	for _, sb := range sandboxes {
		if err := s.addSandbox(ctx, seen, sb); err != nil {
			if how == exact || ctx.Err() != nil {
				return nil, err
			}
			seen.Sandboxes = append(seen.Sandboxes, listedSandbox(sb))
		}
	}
	for _, c := range containers {
		if err := s.addContainer(ctx, seen, uid, c); err != nil {
			if how == exact || ctx.Err() != nil {
				return nil, err
			}
			seen.Containers = append(seen.Containers, listedContainer(c))
		}
	}
	seen.Sort()
	return seen, nil
}

// observeStopped observes a pod whose sandboxes were stopped. A container whose state
// the runtime has lost has ended with its sandbox, in which nothing runs any more.
func (s *Syncer) observeStopped(ctx context.Context, uid types.UID) (*podstatus.Observed, error) {
	seen, err := s.observe(ctx, uid, rough)
	if err != nil {
		return nil, err
	}
	for i := range seen.Containers {
		c := &seen.Containers[i]
		in := func(sb podstatus.Sandbox) bool { return sb.ID == c.SandboxID && sb.Ready }
		if c.State == podstatus.StateUnknown && !slices.ContainsFunc(seen.Sandboxes, in) {
			c.State, c.ExitCode, c.Reason = podstatus.StateExited, lostExitCode, lostReason
			c.Message = "The container could not be located when the pod was terminated"
		}
	}
	return seen, nil
}

// listSandboxes returns the sandboxes with these labels, whether or not the runtime
// filters: one that does not would have strangers stopped and removed.
func (s *Syncer) listSandboxes(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, error) {
	list, err := s.runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: labels})
	return slices.DeleteFunc(slices.Clone(list), func(sb *runtimeapi.PodSandbox) bool { return !carries(sb.GetLabels(), labels) }), err
}

// listContainers returns the containers with these labels, as listSandboxes does.
func (s *Syncer) listContainers(ctx context.Context, labels map[string]string) ([]*runtimeapi.Container, error) {
	list, err := s.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{LabelSelector: labels})
	return slices.DeleteFunc(slices.Clone(list), func(c *runtimeapi.Container) bool { return !carries(c.GetLabels(), labels) }), err
}

func carries(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (s *Syncer) addSandbox(ctx context.Context, seen *podstatus.Observed, listed *runtimeapi.PodSandbox) error {
	resp, err := s.runtime.PodSandboxStatus(ctx, listed.GetId(), false)
	switch {
	case isNotFound(err):
		return nil // removed since it was listed
	case err != nil:
		return fmt.Errorf("get status of sandbox %s: %w", listed.GetId(), err)
	case resp.GetStatus().GetId() != listed.GetId():
		return fmt.Errorf("get status of sandbox %s: the runtime answered about sandbox %q", listed.GetId(), resp.GetStatus().GetId())
	}
	seen.Sandboxes = append(seen.Sandboxes, sandboxFrom(resp.GetStatus()))
	return nil
}

func sandboxFrom(st *runtimeapi.PodSandboxStatus) podstatus.Sandbox {
	sb := podstatus.Sandbox{
		ID:           st.GetId(),
		Attempt:      st.GetMetadata().GetAttempt(),
		Ready:        st.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		HostNetwork:  st.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		NetworkKnown: st.GetNetwork() != nil,
		Owner:        st.GetAnnotations()[podspec.AnnotationInstance],
		CreatedAt:    nanos(st.GetCreatedAt()),
	}
	if ip := st.GetNetwork().GetIp(); ip != "" {
		sb.IPs = append(sb.IPs, ip)
	}
	for _, ip := range st.GetNetwork().GetAdditionalIps() {
		if ip.GetIp() != "" {
			sb.IPs = append(sb.IPs, ip.GetIp())
		}
	}
	return sb
}

func (s *Syncer) addContainer(ctx context.Context, seen *podstatus.Observed, uid types.UID, listed *runtimeapi.Container) error {
	resp, err := s.runtime.ContainerStatus(ctx, listed.GetId(), false)
	switch {
	case isNotFound(err):
		return nil // removed since it was listed
	case err != nil:
		return fmt.Errorf("get status of container %s: %w", listed.GetId(), err)
	case resp.GetStatus().GetId() != listed.GetId():
		return fmt.Errorf("get status of container %s: the runtime answered about container %q", listed.GetId(), resp.GetStatus().GetId())
	}
	in := instanceFrom(resp.GetStatus())
	in.SandboxID = listed.GetPodSandboxId()
	if in.State == podstatus.StateExited {
		in.Message = lastWords(in.Message, s.terminationMessage(uid, resp.GetStatus()))
	}
	seen.Containers = append(seen.Containers, in)
	return nil
}

// lastWords joins what the runtime says of the end of a container and what that left, as
// the kubelet does.
func lastWords(runtime, own string) string {
	if runtime == "" || own == "" {
		return runtime + own
	}
	return runtime + ": " + own
}

func instanceFrom(st *runtimeapi.ContainerStatus) podstatus.Instance {
	in := podstatus.Instance{
		Name:         st.GetLabels()[podspec.LabelContainerName],
		ID:           st.GetId(),
		State:        stateFrom(st.GetState()),
		RestartCount: int32(min(st.GetMetadata().GetAttempt(), 1<<31-1)), //nolint:gosec // bounded
		Hash:         st.GetAnnotations()[podspec.AnnotationHash],
		Step:         -1,
		Image:        st.GetImage().GetImage(),
		ImageRef:     st.GetImageRef(),
		CreatedAt:    nanos(st.GetCreatedAt()),
		StartedAt:    nanos(st.GetStartedAt()),
		FinishedAt:   nanos(st.GetFinishedAt()),
		ExitCode:     st.GetExitCode(),
		Reason:       st.GetReason(),
		Message:      st.GetMessage(),
		User:         userFrom(st.GetUser()),
	}
	in.RecursiveReadOnly = slices.ContainsFunc(st.GetMounts(), func(m *runtimeapi.Mount) bool { return m.GetRecursiveReadOnly() })
	if in.Name == "" {
		in.Name = st.GetMetadata().GetName()
	}
	if r := st.GetResources().GetLinux(); r != nil {
		granted := podstatus.Granted(r.GetCpuShares(), r.GetCpuQuota(), r.GetCpuPeriod(), r.GetMemoryLimitInBytes())
		in.Resources = &granted
	}
	if signal := st.GetStopSignal(); signal != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		in.StopSignal = corev1.Signal(signal.String())
	}
	if n, err := strconv.ParseInt(st.GetAnnotations()[podspec.AnnotationRestartCount], 10, 32); err == nil {
		in.RestartCount = int32(n)
	}
	if d, err := time.ParseDuration(st.GetAnnotations()[podspec.AnnotationBackoff]); err == nil && d >= 0 {
		in.Step = d
	}
	return in
}

// listedSandbox is what a list alone tells of a sandbox.
func listedSandbox(sb *runtimeapi.PodSandbox) podstatus.Sandbox {
	return podstatus.Sandbox{
		ID:        sb.GetId(),
		Attempt:   sb.GetMetadata().GetAttempt(),
		Ready:     sb.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		Owner:     Owner(sb),
		CreatedAt: nanos(sb.GetCreatedAt()),
	}
}

// listedContainer is what a list alone tells of a container. How it ended is not
// known; it is reported as killed.
func listedContainer(c *runtimeapi.Container) podstatus.Instance {
	in := instanceFrom(&runtimeapi.ContainerStatus{
		Id: c.GetId(), Metadata: c.GetMetadata(), State: c.GetState(), CreatedAt: c.GetCreatedAt(),
		Image: c.GetImage(), ImageRef: c.GetImageRef(), Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
	})
	in.SandboxID = c.GetPodSandboxId()
	if in.State == podstatus.StateExited {
		in.ExitCode, in.Reason, in.Message = lostExitCode, lostReason, "The runtime could not tell how the container ended"
	}
	return in
}

// What is reported of a container of which nobody knows how it ended: 128 + SIGKILL,
// as the kubelet does.
const (
	lostExitCode = 137
	lostReason   = "ContainerStatusUnknown"
)

func stateFrom(st runtimeapi.ContainerState) podstatus.State {
	switch st {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return podstatus.StateCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return podstatus.StateRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return podstatus.StateExited
	case runtimeapi.ContainerState_CONTAINER_UNKNOWN:
	}
	return podstatus.StateUnknown
}

func userFrom(u *runtimeapi.ContainerUser) *corev1.LinuxContainerUser {
	l := u.GetLinux()
	if l == nil {
		return nil
	}
	return &corev1.LinuxContainerUser{UID: l.GetUid(), GID: l.GetGid(), SupplementalGroups: l.GetSupplementalGroups()}
}

// nanos returns the time of a CRI time stamp, which is 0 until the event happened.
func nanos(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
