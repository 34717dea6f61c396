package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// soon bounds the wait for what takes a few seconds on a machine with nothing else to do.
const soon = 2 * time.Minute

// selfHosted is a cluster whose control plane is static pods of our kubelet.
type selfHosted struct {
	*cluster.Cluster
	t *testing.T
}

func startSelfHosted(t *testing.T) *selfHosted {
	t.Helper()
	c := clustertest.StartSelfHosted(t, cluster.Config{Node: cluster.NodeConfig{Kubelet: cluster.Ours, Proxy: cluster.None}})
	return &selfHosted{c, t}
}

// mirror returns the mirror of a static pod, or why there is none.
func (s *selfHosted) mirror(ctx context.Context, name string) (*corev1.Pod, error) {
	out, err := s.Kubectl(ctx, "", "-n", "kube-system", "get", "pod", name+"-node-0", "-o", "json")
	if err != nil {
		return nil, err
	}
	pod := new(corev1.Pod)
	return pod, json.Unmarshal([]byte(out), pod)
}

// await waits until a mirror is as it should be, and returns it.
func (s *selfHosted) await(name, what string, check func(*corev1.Pod) error) *corev1.Pod {
	s.t.Helper()
	var found *corev1.Pod
	err := testnode.Eventually(s.t.Context(), soon, name+": "+what, func(ctx context.Context) (err error) {
		if found, err = s.mirror(ctx, name); err == nil {
			err = check(found)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// running wants a mirror that shows a pod that runs, of the Node as it is.
func (s *selfHosted) running(pod *corev1.Pod) error {
	node, err := s.Node(0).Object(s.t.Context())
	if err != nil {
		return err
	}
	hash := pod.Annotations["kubernetes.io/config.hash"]
	switch owners := pod.OwnerReferences; {
	case pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil:
		return fmt.Errorf("it is %s, deleted %v", pod.Status.Phase, pod.DeletionTimestamp)
	case len(pod.Status.ContainerStatuses) != 1 || !pod.Status.ContainerStatuses[0].Ready:
		return fmt.Errorf("its container is not ready: %+v", pod.Status.ContainerStatuses)
	case hash == "" || pod.Annotations[corev1.MirrorPodAnnotationKey] != hash:
		return fmt.Errorf("its annotations are %v", pod.Annotations)
	case len(owners) != 1 || owners[0].Kind != "Node" || owners[0].UID != node.UID:
		return fmt.Errorf("its owners are %+v, the Node is %s", owners, node.UID)
	case pod.Generation != 1 || pod.Status.ObservedGeneration != 0:
		return fmt.Errorf("generation %d, observed %d", pod.Generation, pod.Status.ObservedGeneration)
	}
	return nil
}

// container is what tells whether a container was started anew.
func container(pod *corev1.Pod) string {
	return fmt.Sprintf("%s restarts %d", pod.Status.ContainerStatuses[0].ContainerID, pod.Status.ContainerStatuses[0].RestartCount)
}

// write puts a manifest into the kubelet's folder.
func (s *selfHosted) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.Node(0).Manifests(), name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
}

// edit changes a manifest as an administrator does.
func (s *selfHosted) edit(name, old, new string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Node(0).Manifests(), name))
	if err != nil {
		s.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		s.t.Fatalf("%s has no %q:\n%s", name, old, text)
	}
	s.write(name, strings.Replace(string(text), old, new, 1))
}

func (s *selfHosted) remove(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.Node(0).Manifests(), name)); err != nil {
		s.t.Fatal(err)
	}
}

// TestControlPlaneOfStaticPods starts a cluster as a first node does: the kubelet runs
// the API server's pods from manifests, registers with it, and shows them there.
func TestControlPlaneOfStaticPods(t *testing.T) {
	clustertest.Require(t)
	checkNothingLeft(t)
	began := time.Now()
	s := startSelfHosted(t)
	if err := s.WaitAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the API server is ready after %s", time.Since(began).Round(time.Second))
	if err := s.Node(0).WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		s.await(name, "the mirror appears", s.running)
	}
	t.Logf("the mirrors are there after %s", time.Since(began).Round(time.Second))
	for _, step := range []struct {
		name string
		run  func(*selfHosted)
	}{
		{"a deleted mirror comes back", (*selfHosted).deleteMirrors},
		{"a mirror refers to no objects", (*selfHosted).referToObjects},
		{"a mirror vanishes with its manifest", (*selfHosted).removeManifest},
		{"the kubelet is killed", (*selfHosted).killKubelet},
		{"the Node is deleted", (*selfHosted).deleteNode},
		{"the manifest of the API server changes", (*selfHosted).editAPIServer},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(&selfHosted{s.Cluster, t}) }) {
			return
		}
	}
	t.Logf("all of it took %s", time.Since(began).Round(time.Second))
}

func (s *selfHosted) deleteMirrors() {
	for name, grace := range map[string]string{"etcd": "30", "kube-apiserver": "0"} {
		before := s.await(name, "it runs", s.running)
		args := []string{"-n", "kube-system", "delete", "pod", name + "-node-0", "--wait=false", "--grace-period=" + grace}
		if grace == "0" {
			args = append(args, "--force")
		}
		if _, err := s.Kubectl(s.t.Context(), "", args...); err != nil {
			s.t.Fatal(err)
		}
		after := s.await(name, "the mirror is back", func(pod *corev1.Pod) error {
			if pod.UID == before.UID {
				return errors.New("it is the old one")
			}
			return s.running(pod)
		})
		if diff := cmp.Diff(container(before), container(after)); diff != "" {
			s.t.Errorf("%s: container (-before +after):\n%s", name, diff)
		}
	}
}

// settings is a manifest of a pod with a ConfigMap beside it.
const settings = `apiVersion: v1
kind: ConfigMap
metadata: {namespace: kube-system, name: settings}
data: {level: debug}
---
apiVersion: v1
kind: Pod
metadata: {namespace: kube-system, name: settings}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: registry.k8s.io/pause:3.10.1
    imagePullPolicy: Never
    ports: [{containerPort: 80, hostPort: 8080}]
    resources: {requests: {cpu: 10m}}
    env:
    - {name: LEVEL, valueFrom: {configMapKeyRef: {name: settings, key: level}}}
    volumeMounts: [{name: settings, mountPath: /settings}]
  volumes:
  - {name: settings, configMap: {name: settings}}
`

func (s *selfHosted) referToObjects() {
	s.write("settings.yaml", settings)
	pod := s.await("settings", "the mirror appears", s.running)
	c := pod.Spec.Containers[0]
	if len(pod.Spec.Volumes)+len(c.VolumeMounts)+len(c.Env) > 0 {
		s.t.Errorf("volumes %v, mounts %v, variables %v of the mirror, want none", pod.Spec.Volumes, c.VolumeMounts, c.Env)
	}
	if c.Ports[0].HostPort != 8080 || c.Resources.Requests.Cpu().MilliValue() != 10 {
		s.t.Errorf("ports %v, requests %v of the mirror", c.Ports, c.Resources.Requests)
	}
	want := "spec.volumes[0],spec.containers[0].env[0],spec.containers[0].volumeMounts[0]"
	if got := pod.Annotations["nodekit.io/mirror-omits"]; got != want {
		s.t.Errorf("left out are %s, want %s", got, want)
	}
}

func (s *selfHosted) removeManifest() {
	s.remove("settings.yaml")
	s.awaitGone("settings")
}

// awaitGone waits until a static pod has no mirror.
func (s *selfHosted) awaitGone(name string) {
	s.t.Helper()
	err := testnode.Eventually(s.t.Context(), soon, name+" has no mirror", func(ctx context.Context) error {
		_, err := s.mirror(ctx, name)
		switch {
		case err == nil:
			return errors.New("it has one")
		case strings.Contains(err.Error(), "NotFound"):
			return nil
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// killKubelet restarts the kubelet. Meanwhile a manifest has gone and another has come.
func (s *selfHosted) killKubelet() {
	const extra = "apiVersion: v1\nkind: Pod\nmetadata: {namespace: kube-system, name: %s}\nspec:\n  terminationGracePeriodSeconds: 1\n" +
		"  containers: [{name: main, image: 'registry.k8s.io/pause:3.10.1', imagePullPolicy: Never}]\n"
	s.write("left.yaml", fmt.Sprintf(extra, "left"))
	s.await("left", "the mirror appears", s.running)
	before := map[string]*corev1.Pod{}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		before[name] = s.await(name, "it runs", s.running)
	}
	kubelet := s.Node(0).Kubelet()
	if err := kubelet.Kill(); err != nil {
		s.t.Fatal(err)
	}
	s.remove("left.yaml")
	s.write("new.yaml", fmt.Sprintf(extra, "new"))
	if err := kubelet.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.await("new", "the mirror appears", s.running)
	s.awaitGone("left")
	for name, old := range before {
		now := s.await(name, "it runs", s.running)
		if now.UID != old.UID || container(now) != container(old) {
			s.t.Errorf("%s was mirror %s of %s, it is %s of %s", name, old.UID, container(old), now.UID, container(now))
		}
	}
}

// deleteNode deletes the Node, which the kubelet makes anew: the mirrors belong to the new
// one. There is no garbage collector here that would remove those of the old one.
func (s *selfHosted) deleteNode() {
	before := s.await("etcd", "it runs", s.running)
	if _, err := s.Kubectl(s.t.Context(), "", "delete", "node", "node-0"); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"etcd", "kube-apiserver", "new"} {
		after := s.await(name, "its mirror belongs to the new Node", s.running)
		if name == "etcd" && container(after) != container(before) {
			s.t.Errorf("the container was %s, it is %s", container(before), container(after))
		}
	}
}

// editAPIServer changes the API server's own manifest, with which it goes and comes back.
func (s *selfHosted) editAPIServer() {
	before := s.await("kube-apiserver", "it runs", s.running)
	s.edit("kube-apiserver.json", `"--allow-privileged"`, `"--allow-privileged", "--event-ttl=30m"`)
	after := s.await("kube-apiserver", "the mirror shows the new version", func(pod *corev1.Pod) error {
		if pod.UID == before.UID {
			return errors.New("it is the old one")
		}
		return s.running(pod)
	})
	if args := strings.Join(after.Spec.Containers[0].Args, " "); !strings.Contains(args, "--event-ttl=30m") {
		s.t.Errorf("the mirror has the arguments %s", args)
	}
}
