package podstatus_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

func Example() {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	ended := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	st := podstatus.Compute(podstatus.Input{
		Pod: pod,
		Observed: &podstatus.Observed{
			Sandboxes: []podstatus.Sandbox{{ID: "s0", Ready: true, IPs: []string{"10.88.0.2"}}},
			Containers: []podstatus.Instance{{
				Name: "app", ID: "c3", State: podstatus.StateExited, ExitCode: 1, RestartCount: 3, FinishedAt: ended,
			}},
		},
		Waiting: map[string]podstatus.Waiting{"app": {Reason: "CrashLoopBackOff"}},
		Now:     ended.Add(time.Second),
	})
	app := st.ContainerStatuses[0]
	fmt.Println(st.Phase, st.PodIP)
	fmt.Println(app.State.Waiting.Reason, app.LastTerminationState.Terminated.ExitCode, app.RestartCount)
	// Output:
	// Running 10.88.0.2
	// CrashLoopBackOff 1 3
}
