package node_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// goodbye is how long TLS may take to say it: to nobody, if the other end of a pipe has gone.
const goodbye = 6 * time.Second

// securely starts an agent whose HTTPS API lets everybody in, and returns what asks it.
func (m *machine) securely(t *testing.T, edit ...func(*node.Config)) (get func(path string) (int, string)) {
	t.Helper()
	secure := newPipes()
	m.start(t, append(edit, func(c *node.Config) {
		c.Kubelet.EnableServer = new(true)
		c.API.Protect = func(h http.Handler) http.Handler { return h }
		listen := c.Listen
		c.Listen = func(ctx context.Context, network, address string) (net.Listener, error) {
			if strings.HasSuffix(address, ":10250") {
				return secure, nil
			}
			return listen(ctx, network, address)
		}
	})...)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return secure.connect() },
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the server is the test's own
	}}
	return func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("https://kubelet" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		pass(goodbye)
		return resp.StatusCode, string(body)
	}
}

func TestAPIShowsPodsAndTheirLogs(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Life{Log: []runtimetest.LogLine{{Text: "hello"}}})
		s := newAPIServer()
		s.bind(apiPod("api"))
		m.manifests.write(newPod("web"))
		get := m.securely(t, s.inCluster)
		pass(10 * time.Second)

		code, text := get("/pods")
		var list corev1.PodList
		if err := json.Unmarshal([]byte(text), &list); err != nil || code != http.StatusOK {
			t.Fatalf("pods are %d %s (%v)", code, text, err)
		}
		got := map[string]corev1.PodPhase{}
		for i := range list.Items {
			got[list.Items[i].Name] = list.Items[i].Status.Phase
		}
		// The API server knows how its pods are; of those of manifests only this node does.
		if len(got) != 2 || got["web"] != corev1.PodRunning {
			t.Errorf("pods are %v, want web Running and api", got)
		}
		for _, name := range []string{"web", "api"} {
			if code, text := get("/containerLogs/default/" + name + "/app"); code != http.StatusOK || text != "hello\n" {
				t.Errorf("log of %s is %d %q", name, code, text)
			}
			if _, text := get("/runningpods/"); !strings.Contains(text, fmt.Sprintf("%q", name)) {
				t.Errorf("%s is not among the pods that run: %s", name, text)
			}
			if _, text := get("/allocatedPods"); !strings.Contains(text, fmt.Sprintf("%q", name)) {
				t.Errorf("%s is not among the pods that hold resources: %s", name, text)
			}
		}
		if code, text := get("/containerLogs/default/none/app"); code != http.StatusNotFound || text != `pod "none" does not exist` {
			t.Errorf("log of a pod that is not there: %d %q", code, text)
		}
		if code, text := get("/healthz"); code != http.StatusOK || text != "ok" {
			t.Errorf("health is %d %q", code, text)
		}
	})
}

// Who knows a static pod from the API server knows the UID of its mirror.
func TestAPIFindsAStaticPodByTheUIDOfItsMirror(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newServerWithNode()
		m.manifests.write(edition("v1"))
		get := m.securely(t, s.inCluster)
		pass(10 * time.Second)
		mirror := s.wantMirror(t, "web", "v1")
		for _, path := range []string{"/exec/default/web/%s/app?command=id&output=1", "/attach/default/web/%s/app?output=1", "/portForward/default/web/%s"} {
			for uid, want := range map[string]string{"v1": "Upgrade request required", string(mirror.UID): "Upgrade request required", "mirror": "pod not found"} {
				path := fmt.Sprintf(path, uid)
				if code, text := get(path); !strings.Contains(text, want) {
					t.Errorf("%s is %d %q, want %q", path, code, text, want)
				}
			}
		}
		_, text := get("/pods")
		var list corev1.PodList
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].UID != "v1" {
			t.Errorf("pods are %s, want the static pod without its mirror", text)
		}
	})
}

// A container that puts a link where its log is shows nothing of the machine.
func TestAPIFollowsNoLinkOfALog(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Life{Log: []runtimetest.LogLine{{Text: "hello"}}})
		m.manifests.write(newPod("web"))
		get := m.securely(t)
		pass(10 * time.Second)
		files, err := filepath.Glob(filepath.Join(m.root, "..", "logs", "default_web_*", "app", "0.log"))
		if err != nil || len(files) != 1 {
			t.Fatalf("logs are %v, %v", files, err)
		}
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte("2026-01-02T15:04:05Z stdout F secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(secret, files[0]); err != nil {
			t.Fatal(err)
		}
		if code, text := get("/containerLogs/default/web/app"); code != http.StatusBadRequest || !strings.Contains(text, "a link is in the way") {
			t.Errorf("log is %d %q, want an error", code, text)
		}
	})
}

func TestAPIShowsTheConfiguration(t *testing.T) {
	onMachine(t, func(m *machine) {
		get := m.securely(m.t, func(c *node.Config) {
			c.Kubelet.StaticPodURLHeader = map[string][]string{"X-Node": {"one"}}
			c.Kubelet.MaxPods = 42
		})
		code, text := get("/configz")
		var shown struct {
			KubeletConfig struct {
				Kind, APIVersion   string
				MaxPods            int
				StaticPodURLHeader map[string][]string
			}
		}
		if err := json.Unmarshal([]byte(text), &shown); err != nil || code != http.StatusOK {
			m.t.Fatalf("configuration is %d %s (%v)", code, text, err)
		}
		k := shown.KubeletConfig
		if k.Kind != "KubeletConfiguration" || k.APIVersion != "kubelet.config.k8s.io/v1beta1" || k.MaxPods != 42 || k.StaticPodURLHeader["X-Node"][0] != "one" {
			m.t.Errorf("configuration is %+v", k)
		}
	})
}

// TestLateVersionOfAFinishedPodStartsNothing: what an API server shows may be older than
// the end that the node has told it of.
func TestLateVersionOfAFinishedPodStartsNothing(t *testing.T) {
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
		t.Run(string(policy), func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				m.SetLives("app", runtimetest.Life{Exit: &runtimetest.Exit{After: 10 * time.Second}})
				api := newAPIServer()
				pod := apiPod("job")
				pod.Spec.RestartPolicy = policy
				api.bind(pod)
				m.start(t, api.inCluster)
				pass(30 * time.Second)
				if got := api.phase(pod.UID); got != corev1.PodSucceeded {
					t.Fatalf("the pod is %q, want it succeeded", got)
				}
				m.ForgetCalls()
				late := pod.DeepCopy()
				late.Labels = map[string]string{"changed": "before the end"}
				api.tellLate(late)
				pass(30 * time.Second)
				for _, call := range []string{"RunPodSandbox", "CreateContainer", "StartContainer", "RemoveContainer"} {
					if got := len(m.Calls(call)); got != 0 {
						t.Errorf("%d calls %s after the pod had ended, want none", got, call)
					}
				}
				if got := api.phase(pod.UID); got != corev1.PodSucceeded {
					t.Errorf("the pod is %q, want it succeeded still", got)
				}
			})
		})
	}
}
