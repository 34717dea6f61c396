package node_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/staticpods"
)

// TestAdoptUID: a manifest without a UID of its own takes that of a pod that another
// kubelet runs from it, and nothing else.
func TestAdoptUID(t *testing.T) {
	file := map[string]string{staticpods.AnnotationSource: "file"}
	tests := []struct {
		name        string
		annotations map[string]string
		edit        func(running *corev1.Pod)
		twice       bool
		want        types.UID
	}{
		{name: "the same pod", annotations: file, want: "theirs"},
		{name: "another image", annotations: file, edit: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "img.example/other:1" }},
		{name: "another name", annotations: file, edit: func(p *corev1.Pod) { p.Name = "shop" }},
		{name: "another namespace", annotations: file, edit: func(p *corev1.Pod) { p.Namespace = "kube-system" }},
		{name: "not from a file", annotations: map[string]string{staticpods.AnnotationSource: "api"}},
		{name: "made by hand"},
		{name: "two of them", annotations: file, twice: true},
		{name: "made by this project", annotations: map[string]string{
			staticpods.AnnotationSource: "file", "io.nodekit.instance": "0123456789abcdef0123456789abcdef",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				running := newPod("web")
				running.UID = "theirs"
				if tt.edit != nil {
					tt.edit(running)
				}
				m.SetImage(imageOf(running))
				m.stranger(t, running, tt.annotations)
				if tt.twice {
					running.UID = "theirs-too"
					m.stranger(t, running, tt.annotations)
				}
				m.start(t)
				pass(2 * time.Second)
				if got, ok := m.manifests.adopt(newPod("web")); got != tt.want || ok != (tt.want != "") {
					t.Errorf("adopted %q, %t; want %q", got, ok, tt.want)
				}
			})
		})
	}
}

// TestAdoptedPodIsOurs: a pod taken over from another kubelet is not restarted, also
// not by the next start; its manifest edited or removed while the agent was down, it
// is replaced or stopped.
func TestAdoptedPodIsOurs(t *testing.T) {
	adopt := func(t *testing.T, m *machine) {
		t.Helper()
		m.stranger(t, newPod("web"), map[string]string{staticpods.AnnotationSource: "file"})
		before := m.containers(t)
		m.manifests.write(newPod("web")) // its UID is that of the running one
		for range 2 {
			k := m.start(t)
			pass(time.Minute)
			if diff := cmp.Diff(before, m.containers(t)); diff != "" {
				t.Errorf("containers (-before +after):\n%s", diff)
			}
			if got := k.pods()["web"].Status.Phase; got != corev1.PodRunning {
				t.Errorf("adopted pod is %s, want Running", got)
			}
			k.end()
		}
	}
	t.Run("removed", func(t *testing.T) {
		onMachine(t, func(m *machine) {
			t := m.t
			adopt(t, m)
			m.manifests.write()
			m.start(t)
			pass(30 * time.Second)
			if left := m.left(t); len(left) > 0 {
				t.Errorf("left over: %q", left)
			}
		})
	})
	t.Run("edited", func(t *testing.T) {
		onMachine(t, func(m *machine) {
			t := m.t
			adopt(t, m)
			edited := newPod("web")
			edited.UID = "uid-edited"
			m.manifests.write(edited)
			k := m.start(t)
			pass(30 * time.Second)
			if pod := k.pods()["web"]; pod.UID != "uid-edited" || pod.Status.Phase != corev1.PodRunning {
				t.Errorf("pod %s is %s, want the edited one running", pod.UID, pod.Status.Phase)
			}
			if got := len(m.containers(t)); got != 1 {
				t.Errorf("%d pods run, want 1", got)
			}
		})
	})
}

// TestEditOfAnAdoptedManifestIsSeen: the second version of a manifest does not get
// the UID that the first one adopted, whether the agent runs or not when it comes.
func TestEditOfAnAdoptedManifestIsSeen(t *testing.T) {
	for _, restart := range []string{"running", "restarted"} {
		t.Run(restart, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				m.manifests.adopts = true
				running, first, second := newPod("web"), newPod("web"), newPod("web")
				running.UID, first.UID, second.UID = "theirs", "digest-1", "digest-2"
				m.stranger(t, running, map[string]string{staticpods.AnnotationSource: "file"})
				m.manifests.write(first)
				for range 2 {
					k := m.start(t)
					pass(2 * time.Second)
					if got := k.pods()["web"].UID; got != "theirs" {
						t.Errorf("first version has UID %s, want theirs", got)
					}
					k.end()
				}
				m.unchanged(t)
				k := m.start(t)
				pass(2 * time.Second)
				if restart == "restarted" {
					k.end()
				}
				m.manifests.write(second)
				if restart == "restarted" {
					k = m.start(t)
				}
				pass(30 * time.Second)
				if pod := k.pods()["web"]; pod.UID != "digest-2" || pod.Status.Phase != corev1.PodRunning {
					t.Errorf("pod %s is %s, want the second version running", pod.UID, pod.Status.Phase)
				}
				if got := len(m.containers(t)); got != 1 {
					t.Errorf("%d pods run, want 1", got)
				}
			})
		})
	}
}
