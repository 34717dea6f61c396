package node_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/tokens"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// tokenLife is how long the tokens of the test are good. The least that an API server
// grants is ten minutes.
const tokenLife = 4 * time.Second

// issuer makes short-lived tokens, as an API server would not.
type issuer struct {
	mu     sync.Mutex // guards issued
	issued int
}

// CreateToken implements tokens.Client.
func (i *issuer) CreateToken(_ context.Context, account string, r *authenticationv1.TokenRequest, _ metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.issued++
	answer := r.DeepCopy()
	answer.Spec.ExpirationSeconds = new(int64(tokenLife / time.Second))
	answer.Status.Token = fmt.Sprintf("%s-%04d", account, i.issued)
	answer.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(tokenLife))
	return answer, nil
}

// setter hands volumes to podsync in its own words.
type setter struct{ *volume.Manager }

// SetUp implements podsync.Volumes.
func (s setter) SetUp(ctx context.Context, pod *corev1.Pod) (map[string]podspec.Volume, error) {
	list, err := s.Manager.SetUp(ctx, pod)
	out := map[string]podspec.Volume{}
	for name, v := range list {
		out[name] = podspec.Volume{Path: v.Path, ReadOnly: v.ReadOnly}
	}
	return out, err
}

// tokenWorker runs one pod with a token on the shared node, without a kubelet.
type tokenWorker struct {
	*suite
	t      *testing.T
	root   string
	syncer *podsync.Syncer
	pod    *corev1.Pod
}

func newTokenWorker(t *testing.T, s *suite) *tokenWorker {
	t.Helper()
	w := &tokenWorker{suite: s, t: t, root: s.Dir("tokens")}
	accounts := &issuer{}
	cache, err := tokens.New(func(string) tokens.Client { return accounts }, tokens.Config{})
	if err != nil {
		t.Fatal(err)
	}
	manager, err := volume.New(volume.Config{Root: w.root, Tokens: cache})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx) }()
	client, err := runtime.Dial(t.Context(), "unix://"+s.Socket(), runtime.Config{})
	if err != nil {
		t.Fatal(err)
	}
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*")
	if err != nil {
		t.Fatal(err)
	}
	w.syncer, err = podsync.New(client, podsync.Config{
		Node:    podspec.Node{Name: "tokens", Root: w.root, Logs: s.PodLogs(), Instance: "tokens", Cgroups: podspec.Cgroups{Root: s.CgroupRoot()}},
		Can:     podspec.ServiceAccountTokens,
		Cgroups: podsync.CgroupDirs(hierarchies),
		Parts:   podsync.Parts{Volumes: setter{manager}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, client.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// run starts the pod and has it removed at the end of the test.
func (w *tokenWorker) run(pod *corev1.Pod) {
	w.t.Helper()
	w.pod = pod
	w.t.Cleanup(func() {
		ctx := context.WithoutCancel(w.t.Context())
		err := testnode.Eventually(ctx, patience, "the pod is removed", func(ctx context.Context) error {
			return errors.Join(
				w.syncer.SyncTerminating(ctx, pod, podworker.Termination{Grace: podworker.MinGrace}),
				w.syncer.SyncTerminated(ctx, pod), w.syncer.Forget(ctx, pod.UID),
			)
		})
		if err != nil {
			w.t.Error(err)
		}
	})
	err := testnode.Eventually(w.t.Context(), patience, "the pod runs", func(ctx context.Context) error {
		if _, err := w.syncer.Sync(ctx, pod); err != nil {
			return err
		}
		_, err := w.container(ctx)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// container returns the id of the pod's container that runs.
func (w *tokenWorker) container(ctx context.Context) (string, error) {
	list, err := w.CRI().Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{podspec.LabelPodUID: string(w.pod.UID)},
	}})
	if err != nil {
		return "", err
	}
	if len(list.GetContainers()) != 1 {
		return "", fmt.Errorf("%d containers run", len(list.GetContainers()))
	}
	return list.GetContainers()[0].GetId(), nil
}

// TestTokenIsRenewedWithoutRestart has a pod see one token after the other, in time and
// in the same container.
func TestTokenIsRenewedWithoutRestart(t *testing.T) {
	w := newTokenWorker(t, useNode(t))
	pod := newPod("token")
	pod.Namespace, pod.UID = "default", types.UID("0b1c0000-0000-4000-8000-00000000c0de")
	pod.Spec.ServiceAccountName, pod.Spec.RestartPolicy = "shop", corev1.RestartPolicyAlways
	pod.Spec.Volumes = []corev1.Volume{{Name: "access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o644)),
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: "vault", ExpirationSeconds: new(int64(600)), Path: "token",
		}}},
	}}}}
	mainOf(pod).VolumeMounts = []corev1.VolumeMount{{Name: "access", MountPath: "/access"}}
	w.run(pod)
	id, err := w.container(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for n := 1; n <= 3; n++ {
		want := fmt.Sprintf("-rw-r--r-- 0 0 /access/token \"shop-%04d\"", n)
		err := testnode.Eventually(t.Context(), patience, fmt.Sprintf("the container sees token %d or a later one", n), func(ctx context.Context) error {
			answer, err := w.CRI().Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"/life", "list", "/access/token"}, Timeout: 10})
			if err != nil {
				return err
			}
			// On a machine that stands still for a while one may be missed.
			if got := strings.TrimSpace(string(answer.GetStdout())); got < want {
				return fmt.Errorf("it sees %s, want %s", got, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("token %d was seen after %s; each is good for %s", n, time.Since(began).Round(time.Millisecond), tokenLife)
	}
	if now, err := w.container(t.Context()); err != nil || now != id {
		t.Errorf("container %s runs (%v), was %s", now, err, id)
	}
}
