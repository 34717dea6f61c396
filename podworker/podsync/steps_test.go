package podsync_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// restartsAll is a pod whose container asks by its exit code for all to restart, after an
// init container of half a minute.
func restartsAll() *corev1.Pod {
	never := corev1.ContainerRestartPolicyNever
	pod := newPod("loop")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: shell}}
	pod.Spec.Containers[0].RestartPolicy = &never
	pod.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	return pod
}

// backoffs returns the crash back-off that was recorded with each run of a container.
func (m *machine) backoffs(name string) []string {
	var out []string
	for _, call := range m.Calls("CreateContainer") {
		config := call.Request.(*runtimeapi.CreateContainerRequest).GetConfig()
		if config.GetMetadata().GetName() == name {
			out = append(out, config.GetAnnotations()[podspec.AnnotationBackoff])
		}
	}
	return out
}

// TestRestartAllBackoffSurvivesAgentRestart kills the agent when the runtime has no record
// of the container that had all restarted: the back-off is not that of a first run.
func TestRestartAllBackoffSurvivesAgentRestart(t *testing.T) {
	kept := func(m *machine) string { return filepath.Join(m.root(), "pods", "uid-loop", "backoff.json") }
	tests := []struct {
		name    string
		damaged bool
		want    []string
	}{
		{name: "kept", want: []string{"0s", "10s", "20s"}},
		{name: "damaged", damaged: true, want: []string{"0s", "0s", "10s", "20s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				m.SetLives("i", runtimetest.Exits(30*time.Second, 0))
				m.SetLives("app", runtimetest.Exits(time.Second, 42))
				a := m.agent(t)
				a.add(restartsAll())
				pass(45 * time.Second) // the second run of i
				a.stop()
				if _, err := os.Stat(kept(m)); err != nil {
					t.Fatal(err)
				}
				if tt.damaged {
					if err := os.WriteFile(kept(m), []byte(`{"app":`), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				b := m.agent(t)
				b.add(restartsAll())
				pass(20 * time.Second)
				if _, err := os.Stat(kept(m)); !tt.damaged && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the back-off is kept although the runtime has it: %v", err)
				}
				pass(70 * time.Second)
				if diff := cmp.Diff(tt.want, m.backoffs("app")); diff != "" {
					t.Errorf("back-off of the runs (-want +got):\n%s", diff)
				}
			})
		})
	}
}
