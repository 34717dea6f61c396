package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/staticpods"
)

// newServerWithNode returns an API server that has the Node.
func newServerWithNode() *apiServer {
	s := newAPIServer()
	s.node = "uid-of-the-node"
	return s
}

func (c podClient) Create(_ context.Context, pod *corev1.Pod, _ metav1.CreateOptions) (*corev1.Pod, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := c.s.upLocked(); err != nil {
		return nil, err
	}
	if _, err := c.named(pod.Name); err == nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, pod.Name)
	}
	made := pod.DeepCopy()
	made.UID = types.UID(fmt.Sprintf("mirror-%d", c.s.version))
	made.Status.Phase = corev1.PodPending
	c.s.putLocked(made)
	return made.DeepCopy(), nil
}

// mirror returns the mirror of a static pod, nil if there is none.
func (s *apiServer) mirror(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range s.pods {
		if _, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; ok && pod.Name == name {
			return pod.DeepCopy()
		}
	}
	return nil
}

// wantMirror wants a mirror of a version of a static pod that runs, and returns it.
func (s *apiServer) wantMirror(t *testing.T, name, hash string) *corev1.Pod {
	t.Helper()
	pod := s.mirror(name)
	if pod == nil {
		t.Fatalf("%s has no mirror", name)
	}
	if got := pod.Annotations[corev1.MirrorPodAnnotationKey]; got != hash || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		t.Errorf("the mirror of %s is of %s, %s, deleted %v; want %s, Running", name, got, pod.Status.Phase, pod.DeletionTimestamp, hash)
	}
	return pod
}

// edition is a version of the manifest of pod web.
func edition(hash string) *corev1.Pod {
	pod := newPod("web")
	pod.UID, pod.Annotations[staticpods.AnnotationHash] = types.UID(hash), hash
	return pod
}

func TestStaticPodIsShownAtTheAPIServer(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newServerWithNode()
		m.manifests.write(edition("v1"))
		k := m.start(t, s.inCluster)
		pass(5 * time.Second)
		first := s.wantMirror(t, "web", "v1")
		before := m.containers(t)

		// Deleted, by a user who gives it time: its containers do not notice.
		first.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		s.bind(first)
		pass(5 * time.Second)
		if second := s.wantMirror(t, "web", "v1"); second.UID == first.UID {
			t.Error("the deleted mirror is still there")
		}
		if diff := cmp.Diff(before, m.containers(t)); diff != "" {
			t.Errorf("containers (-before +after):\n%s", diff)
		}

		// Another process takes the mirror over.
		k.end()
		old := s.mirror("web")
		k = m.start(t, s.inCluster)
		pass(5 * time.Second)
		if now := s.wantMirror(t, "web", "v1"); now.UID != old.UID {
			t.Errorf("a restart made the mirror anew: %s, before %s", now.UID, old.UID)
		}

		m.manifests.write(edition("v2"))
		pass(5 * time.Second)
		if now := s.wantMirror(t, "web", "v2"); now.UID == old.UID {
			t.Error("the mirror of the old version is still there")
		}
		m.manifests.write()
		pass(5 * time.Second)
		if left := s.mirror("web"); left != nil {
			t.Errorf("the mirror is left: %v", left.Status)
		}
		k.end()
	})
}

// TestForgedMirrorSilencesNobody: whoever may make pods in one namespace may call one of them
// the mirror of a pod of another. It is removed, as no manifest has its name, and the pod that
// it names is told as before.
func TestForgedMirrorSilencesNobody(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Life{Exit: &runtimetest.Exit{After: 30 * time.Second}})
		s := newServerWithNode()
		job := apiPod("job")
		job.Spec.RestartPolicy = corev1.RestartPolicyNever
		s.bind(job)
		k := m.start(t, s.inCluster)
		pass(5 * time.Second)
		forged := apiPod("forged")
		forged.Namespace = "elsewhere"
		forged.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: string(job.UID)}
		s.bind(forged)
		pass(10 * time.Second)
		if left := s.mirror("forged"); left != nil {
			t.Error("the forged mirror is left")
		}
		pass(time.Minute)
		if got := s.phase(job.UID); got != corev1.PodSucceeded {
			t.Errorf("the pod that it names is %q, want it succeeded", got)
		}
		k.end()
	})
}

// TestMirrorOfAPodThatIsGoneIsRemovedAtTheStart: the manifest went while the agent was
// down, and the API server comes back later than it.
func TestMirrorOfAPodThatIsGoneIsRemovedAtTheStart(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newServerWithNode()
		m.manifests.write(edition("v1"))
		k := m.start(t, s.inCluster)
		pass(5 * time.Second)
		k.end()
		s.setDown(true)
		m.manifests.write()
		k = m.start(t, s.inCluster)
		pass(time.Minute)
		s.wantMirror(t, "web", "v1")
		s.setDown(false)
		pass(time.Minute)
		if left := s.mirror("web"); left != nil {
			t.Errorf("the mirror is left: %v", left.Status)
		}
		m.wantRunning()
		k.end()
	})
}

// TestChangedManifestRunsWithoutTheAPIServer: nobody can be told how the old version
// ended, and the new one starts all the same.
func TestChangedManifestRunsWithoutTheAPIServer(t *testing.T) {
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyNever} {
		t.Run(string(policy), func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				s := newServerWithNode()
				version := func(hash string) *corev1.Pod {
					pod := edition(hash)
					pod.Spec.RestartPolicy = policy
					return pod
				}
				m.manifests.write(version("v1"))
				k := m.start(t, s.inCluster)
				pass(5 * time.Second)
				s.wantMirror(t, "web", "v1")
				s.setDown(true)
				m.manifests.write(version("v2"))
				pass(time.Minute)
				if pod := k.pods()["web"]; pod.UID != "v2" || pod.Status.Phase != corev1.PodRunning {
					t.Errorf("the pod is %s, %s; want v2, Running", pod.UID, pod.Status.Phase)
				}
				s.setDown(false)
				pass(2 * time.Minute)
				s.wantMirror(t, "web", "v2")
				k.end()
			})
		})
	}
}

// TestPodsOfAURLRunBesideThoseOfFiles, as those of another source.
func TestPodsOfAURLRunBesideThoseOfFiles(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		remote := &manifests{changed: make(chan struct{}, 1)}
		far := newPod("far")
		far.Annotations[staticpods.AnnotationSource] = "http"
		m.manifests.write(newPod("near"))
		remote.write(far)
		k := m.start(t, func(c *node.Config) {
			c.Remote = func(node.AdoptUID) (node.Source, error) { return remote, nil }
		})
		pass(5 * time.Second)
		m.wantRunning("far", "near")
		remote.write()
		pass(30 * time.Second)
		m.wantRunning("near")
		k.end()
	})
}
