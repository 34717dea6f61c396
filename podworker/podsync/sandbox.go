package podsync

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// sandboxProblem returns why a pod needs a new sandbox, empty if it does not, and
// the attempt a new one has.
func sandboxProblem(pod *corev1.Pod, seen *podstatus.Observed) (problem string, attempt uint32) {
	if len(seen.Sandboxes) == 0 {
		return "no pod sandbox exists", 0
	}
	latest := &seen.Sandboxes[0]
	ready := 0
	for i := range seen.Sandboxes {
		if seen.Sandboxes[i].Ready {
			ready++
		}
	}
	attempt = latest.Attempt + 1
	switch {
	case ready > 1:
		return "multiple pod sandboxes are ready and need to be reconciled", attempt
	case !latest.Ready:
		return "pod sandbox is not ready", attempt
	case latest.HostNetwork != pod.Spec.HostNetwork:
		return "network namespace mode changed and sandbox needs to be recreated", attempt
	case !latest.HostNetwork && latest.NetworkKnown && len(latest.IPs) == 0:
		return "pod sandbox has no IP address", attempt
	}
	return "", latest.Attempt
}

// sandboxRuns publishes that the pod has a sandbox and an address, before any image
// is pulled.
func (s *Syncer) sandboxRuns(ctx context.Context, pod *corev1.Pod, r *record) (*podstatus.Observed, error) {
	seen, err := s.observe(ctx, pod.UID, exact)
	if err != nil {
		s.warning(pod, "", "FailedPodSandBoxStatus", fmt.Sprintf("Unable to get pod sandbox status: %v", err))
		return nil, err
	}
	s.emit(pod, r, s.statusInput(pod, r, seen))
	if problem, _ := sandboxProblem(pod, seen); problem != "" {
		r.badSandbox = time.Now()
		return nil, fmt.Errorf("run sandbox of pod %s/%s: %s", pod.Namespace, pod.Name, problem)
	}
	r.badSandbox = time.Time{}
	return seen, nil
}

// mayRunSandbox returns an error while a new sandbox would be of no use: when the
// runtime has no network for it, or gave the last one no address a moment ago.
func (s *Syncer) mayRunSandbox(ctx context.Context, pod *corev1.Pod, r *record) error {
	if wait := usualRetry - time.Since(r.badSandbox); !r.badSandbox.IsZero() && wait > 0 {
		return &syncError{
			error: fmt.Errorf("run sandbox of pod %s/%s: the last one was unusable, the next is due in %s", pod.Namespace, pod.Name, wait.Round(time.Second)),
			after: wait,
		}
	}
	if pod.Spec.HostNetwork {
		return nil
	}
	problem := s.networkProblem(ctx)
	if problem == "" {
		return nil
	}
	text := "network is not ready: " + problem
	if r.once(toldNetwork, text) {
		s.warning(pod, "", "NetworkNotReady", text)
	}
	return &syncError{error: fmt.Errorf("run sandbox of pod %s/%s: %s", pod.Namespace, pod.Name, text), after: networkRetry}
}

// networkRetry is how long to wait for the network of the runtime, which is the
// kubelet's time, too.
const networkRetry = time.Second

// networkProblem returns why the runtime has no network for pods, empty if it has
// one or does not say.
func (s *Syncer) networkProblem(ctx context.Context) string {
	if s.conditions == nil {
		return ""
	}
	resp, err := s.conditions.Status(ctx, false)
	if err != nil {
		return ""
	}
	for _, c := range resp.GetStatus().GetConditions() {
		if c.GetType() == runtimeapi.NetworkReady && !c.GetStatus() {
			return fmt.Sprintf("%s=false reason:%s message:%s", c.GetType(), c.GetReason(), c.GetMessage())
		}
	}
	return ""
}

// runSandbox makes the directories of the pod and runs a sandbox for it.
func (s *Syncer) runSandbox(ctx context.Context, pod *corev1.Pod, r *record, attempt uint32) (string, error) {
	grant, err := s.grant(ctx, pod, r)
	if err != nil {
		s.warning(pod, "", "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		return "", err
	}
	spec, err := podspec.Sandbox(pod, s.node(), podspec.SandboxRun{Attempt: attempt, Grant: grant})
	if err != nil {
		s.warning(pod, "", "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		return "", fmt.Errorf("configure sandbox of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := s.fulfil(ctx, "", spec.Paths); err != nil {
		s.warning(pod, "", "Failed", fmt.Sprintf("error making pod data directories: %v", err))
		return "", fmt.Errorf("make directories of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := s.ensureCgroup(ctx, pod); err != nil {
		return "", err
	}
	s.tellDNS(pod, spec.Cuts)
	call, cancel := finishing(ctx, callGrace)
	defer cancel()
	id, err := s.runtime.RunPodSandbox(call, spec.Config, grant.Handler.Name)
	if isReserved(err) {
		id, err = s.reservedSandbox(call, pod, attempt, err)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.warning(pod, "", "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
		}
		return "", fmt.Errorf("run sandbox of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return id, nil
}

// grant returns what the pod was given for its life, and the groups of its volumes.
func (s *Syncer) grant(ctx context.Context, pod *corev1.Pod, r *record) (podspec.Grant, error) {
	var g podspec.Grant
	if s.cfg.Parts.Grant != nil {
		var err error
		if g, err = s.cfg.Parts.Grant(ctx, pod); err != nil {
			return podspec.Grant{}, fmt.Errorf("grant pod %s/%s its handler and users: %w", pod.Namespace, pod.Name, err)
		}
	}
	g.Groups = slices.Concat(g.Groups, r.volumes.groups())
	return g, nil
}

func (s *Syncer) tellDNS(pod *corev1.Pod, cuts []string) {
	for _, cut := range cuts {
		s.warning(pod, "", "DNSConfigForming", cut)
	}
	if podspec.UsesClusterDNS(pod) && len(s.node().DNS.ClusterDNS) == 0 {
		s.warning(pod, "", "MissingClusterDNS", fmt.Sprintf("pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to \"Default\" policy.",
			pod.Namespace+"/"+pod.Name, corev1.DNSClusterFirst))
	}
}

// reservedSandbox deals with a sandbox name that is taken: a good sandbox of the
// pod is used, a bad one makes way for the next attempt.
func (s *Syncer) reservedSandbox(ctx context.Context, pod *corev1.Pod, attempt uint32, cause error) (string, error) {
	list, err := s.listSandboxes(ctx, podspec.PodLabels(pod))
	if err != nil {
		return "", fmt.Errorf("%w; then list sandboxes: %w", cause, err)
	}
	for _, sb := range list {
		if sb.GetMetadata().GetAttempt() != attempt {
			continue
		}
		if sb.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			return sb.GetId(), nil
		}
		if err := s.removeSandbox(ctx, sb.GetId()); err != nil {
			return "", fmt.Errorf("%w; then %w", cause, err)
		}
	}
	return "", cause
}

// removeSandbox stops a sandbox once more, for its network, and removes it.
func (s *Syncer) removeSandbox(ctx context.Context, id string) error {
	if err := ignoreNotFound(s.runtime.StopPodSandbox(ctx, id)); err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	if err := ignoreNotFound(s.runtime.RemovePodSandbox(ctx, id)); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}
