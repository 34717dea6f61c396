package node

import (
	"context"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/lease/nodestatus/shutdown"
	"github.com/nodekit-go/nodekit/podworker"
)

// shutdownState is the file below the root that keeps when the machine last went down;
// the kubelet has the same.
const shutdownState = "graceful_node_shutdown_state"

// newShutdown returns what ends the pods when the machine goes down; nil if the
// configuration gives them no time.
func newShutdown(n *Node) (*shutdown.Manager, error) {
	periods := shutdownPeriods(n.cfg.Kubelet)
	if len(periods) == 0 {
		return nil, nil //nolint:nilnil // graceful shutdown is off
	}
	source := n.cfg.Power
	if source == nil {
		source = shutdown.NewLogind(shutdown.LogindConfig{Log: n.log})
	}
	return shutdown.New(source, shutdown.Config{
		Periods:   periods,
		Pods:      n.livingPods,
		Kill:      n.killForShutdown,
		Changed:   func(bool) { n.beat.wake() },
		Flush:     n.flush,
		StateFile: filepath.Join(n.cfg.Root, shutdownState),
		Log:       n.log,
	})
}

// shutdownPeriods returns the times of the priorities.
func shutdownPeriods(k *kubeletconfig.KubeletConfiguration) []shutdown.Period {
	if len(k.ShutdownGracePeriodByPodPriority) == 0 {
		return shutdown.Periods(k.ShutdownGracePeriod.Duration, k.ShutdownGracePeriodCriticalPods.Duration)
	}
	var periods []shutdown.Period
	for _, p := range k.ShutdownGracePeriodByPodPriority {
		periods = append(periods, shutdown.Period{Priority: p.Priority, Grace: time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
	}
	return periods
}

// goingDown reports whether the machine is going down.
func (n *Node) goingDown() bool { return n.power != nil && n.power.Down() }

// watchPower ends the pods when the machine goes down, until ctx ends.
func (n *Node) watchPower(ctx context.Context) error {
	if n.power == nil {
		return nil
	}
	return n.power.Run(ctx)
}

// livingPods returns the pods that have not ended.
func (n *Node) livingPods() []*corev1.Pod {
	a := n.agent.get()
	if a == nil {
		return nil
	}
	var pods []*corev1.Pod
	for _, k := range a.catalog.known() {
		if s, known := a.pool.State(k.pod.UID); known && !s.Done() {
			pods = append(pods, k.pod)
		}
	}
	return pods
}

// killForShutdown ends a pod, and returns when nothing of it runs.
func (n *Node) killForShutdown(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	a := n.agent.get()
	a.pool.Terminate(pod.UID, podworker.Termination{
		Grace: max(grace, podworker.MinGrace), Phase: corev1.PodFailed, Reason: shutdown.PodReason, Message: shutdown.PodMessage,
		Conditions: []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
			Message: shutdown.PodMessage, LastTransitionTime: metav1.Now(),
		}},
	})
	_, err := a.pool.Wait(ctx, pod.UID, podworker.Finished)
	return err
}
