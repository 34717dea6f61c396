package podspec

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestContainerHash(t *testing.T) {
	tests := []struct {
		name string
		c    corev1.Container
		want string
	}{
		{name: "the kubelet's", c: corev1.Container{Name: "c", Image: "i"}, want: "f434d456"},
		{name: "only name and image count", c: corev1.Container{Name: "c", Image: "i", Command: []string{"x"}, TTY: true}, want: "f434d456"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ContainerHash(&tt.c); got != tt.want {
				t.Errorf("ContainerHash = %s, want %s", got, tt.want)
			}
		})
	}
	if ContainerHash(&corev1.Container{Name: "c", Image: "j"}) == "f434d456" {
		t.Error("another image has the same hash")
	}
}

func FuzzAppendJSON(f *testing.F) {
	for _, s := range []string{"", "img.example/a:1", `q"uote\`, "<&>", "\u2028", "\xff", "tab\t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendJSON(nil, s); string(got) != string(want) {
			t.Errorf("appendJSON(%q) = %s, want %s", s, got, want)
		}
	})
}

func TestContainerAnnotations(t *testing.T) {
	grace, deletion := int64(30), int64(5)
	pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace}}
	pod.DeletionGracePeriodSeconds = &deletion
	c := &corev1.Container{
		Name: "c", Image: "i", TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Ports:     []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}},
	}
	got, err := containerAnnotations(pod, c, &Run{Attempt: 7, Backoff: 40e9})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"io.kubernetes.container.hash":                     "f434d456",
		"io.kubernetes.container.restartCount":             "7",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.container.preStopHandler":           `{"sleep":{"seconds":3}}`,
		"io.kubernetes.container.ports":                    `[{"containerPort":80,"protocol":"TCP"}]`,
		"io.kubernetes.pod.deletionGracePeriod":            "5",
		"io.kubernetes.pod.terminationGracePeriod":         "30",
		"io.nodekit.restart-backoff":                       "40s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
