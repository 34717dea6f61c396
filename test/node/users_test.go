package node_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestUserNamespaceOnContainerd2 runs a pod whose root is nobody on the machine. Debian's
// runc knows of no such thing.
func TestUserNamespaceOnContainerd2(t *testing.T) {
	a := startAgentOn(t, currentContainerd(t, "runc"))
	pod := newPod("users", "-read", "/proc/self/uid_map")
	pod.Spec.HostUsers = new(false)
	a.runPod(pod)
	mapped := regexp.MustCompile(`\b0 +[1-9]\d{4,} +65536\b`) // root is one of the pod's own 65536 users
	a.eventually("the pod has users of its own", func(ctx context.Context) error {
		got, err := a.kubelet.Pod(ctx, podName("users"))
		if err != nil {
			return err
		}
		if got.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %s %+v", got.Status.Phase, got.Status.Message, got.Status.ContainerStatuses)
		}
		log, err := a.readLog(got, 0)
		if err == nil && !mapped.MatchString(strings.Join(log, "\n")) {
			err = errors.New("its users are " + strings.Join(log, "\n"))
		}
		return err
	})
}
