package joined_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// replicas is how many pods the Deployment has.
const replicas = 20

// objects are the Deployment, whose pods need nothing of the API server to start again, a
// pod of a web server and its client, which lives as long as it gets answers, and a Job.
const objects = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: many}
spec:
  replicas: 20
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: many}}}
      containers:
      - {name: main, image: PAUSE}
---
apiVersion: v1
kind: Pod
metadata: {name: pair}
spec:
  nodeName: node-1
  terminationGracePeriodSeconds: 1
  containers:
  - name: server
    image: nodekit.test/web:1
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1, failureThreshold: 2}
  - name: client
    image: nodekit.test/life:1
    startupProbe: {exec: {command: [/life, get, "http://127.0.0.1:8080", "1"]}, periodSeconds: 1, failureThreshold: 100}
    livenessProbe:
      exec: {command: [/life, get, "http://127.0.0.1:8080", "1"]}
      periodSeconds: 1
      failureThreshold: 2
      terminationGracePeriodSeconds: 1
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec:
      nodeName: node-0
      automountServiceAccountToken: false
      restartPolicy: Never
      containers:
      - {name: main, image: "nodekit.test/life:1", args: [-for, 1s]}
`

// outage is how long the API server is away.
func outage() time.Duration {
	if os.Getenv("NODEKIT_LONG") == "1" {
		return 2 * time.Minute
	}
	return 30 * time.Second
}

// TestPodsOfTheAPIServer takes the pods of two nodes through what happens to clusters.
func TestPodsOfTheAPIServer(t *testing.T) {
	clustertest.Require(t)
	w := start(t)
	w.kubectl(strings.ReplaceAll(objects, "PAUSE", testnode.PauseRef), "apply", "-f", "-")
	for _, step := range []struct {
		name string
		run  func(*workload)
	}{
		{"all pods of a Deployment become ready", becomeReady},
		{"the Nodes are described", describe},
		{"pods over their limits are evicted", evict},
		{"kubelets and runtimes are killed", killPrograms},
		{"the API server goes, a machine reboots, the API server comes back", loseAPIServer},
		{"a Node is deleted", deleteNode},
		{"the pods are deleted", deletePods},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(&workload{w.Cluster, t}) }) {
			return
		}
	}
}

// becomeReady waits until all is as it should be at the API server.
func becomeReady(w *workload) {
	w.t.Helper()
	w.eventually("all pods are ready", func(ctx context.Context) error { return w.ready(ctx) })
	w.eventually("the Job is complete", func(ctx context.Context) error {
		out, err := w.Kubectl(ctx, "", "get", "job", "once", "-o", "jsonpath={.status.succeeded}")
		if err == nil && out != "1" {
			err = fmt.Errorf("%q pods of it have succeeded", out)
		}
		return err
	})
}

// ready reports what is not ready at the API server.
func (w *workload) ready(ctx context.Context) error {
	pods, err := w.pods(ctx)
	if err != nil {
		return err
	}
	ready := 0
	for _, pod := range pods {
		if pod.Labels["app"] == "many" && condition(pod, corev1.PodReady) == corev1.ConditionTrue {
			ready++
		}
	}
	if ready != replicas || pods["pair"] == nil || condition(pods["pair"], corev1.PodReady) != corev1.ConditionTrue {
		return fmt.Errorf("%d of %d replicas are ready, and the pair: %t", ready, replicas, pods["pair"] != nil && condition(pods["pair"], corev1.PodReady) == corev1.ConditionTrue)
	}
	return nil
}

// describe wants of kubectl what people look for first.
func describe(w *workload) {
	w.t.Helper()
	for _, n := range w.Nodes() {
		out := w.kubectl("", "describe", "node", n.NodeName())
		for _, line := range []string{
			`MemoryPressure +False .* KubeletHasSufficientMemory`, `DiskPressure +False .* KubeletHasNoDiskPressure`,
			`PIDPressure +False .* KubeletHasSufficientPID`, `Ready +True .* KubeletReady`,
			`InternalIP: +` + regexp.QuoteMeta(n.Address().String()), `Hostname: +` + n.NodeName(),
			`(?s)Capacity:\s+cpu: +\d+\s+ephemeral-storage: +\d.*memory: +\d.*pods: +110\s+Allocatable:\s+cpu: +\d`,
			`Machine ID: +\w`, `Boot ID: +\w`, `Kernel Version: +\d`, `OS Image: +\w`, `Operating System: +linux`, `Architecture: +\w`,
			`Container Runtime Version: +containerd://\d`, `Kubelet Version: +v1\.37\.2\+nodekit`, `many-\w+-\w+`,
		} {
			if !regexp.MustCompile(line).MatchString(out) {
				w.t.Errorf("no line like %q in:\n%s", line, out)
			}
		}
	}
}

// killPrograms kills kubelets, which restarts no container, and then runtimes: the pods are
// ready after that. What a runtime makes of its containers at its start is its own; those
// that did not survive it are logged.
func killPrograms(w *workload) {
	w.t.Helper()
	before, pods := w.running(), w.uids()
	w.all(func(ctx context.Context, n *cluster.Node) error {
		return errors.Join(n.Kubelet().Kill(), n.Kubelet().Start(ctx))
	})
	w.eventually("the kubelets show their pods", func(ctx context.Context) error {
		for _, n := range w.Nodes() {
			if _, err := shown(ctx, n); err != nil {
				return err
			}
		}
		return w.ready(ctx)
	})
	if diff := cmp.Diff(before, w.running()); diff != "" {
		w.t.Errorf("containers after the kubelets were killed (-before +after):\n%s", diff)
	}
	w.all(func(ctx context.Context, n *cluster.Node) error {
		return errors.Join(n.Runtime().Kill(), n.Runtime().Start(ctx))
	})
	w.eventually("all pods run", func(ctx context.Context) error {
		if now := w.running(); len(now) != len(before) {
			return fmt.Errorf("%d containers run, want %d", len(now), len(before))
		}
		return w.ready(ctx)
	})
	if diff := cmp.Diff(pods, w.uids()); diff != "" {
		w.t.Errorf("pods (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before, w.running()); diff != "" {
		w.t.Logf("containers after the runtimes were killed (-before +after):\n%s", diff)
	}
	// What starts now needs all of them.
	w.kubectl("", "delete", "pod", "pair", "--timeout=60s")
	w.kubectl(strings.ReplaceAll(objects, "PAUSE", testnode.PauseRef), "apply", "-f", "-")
	w.eventually("all pods are ready", func(ctx context.Context) error { return w.ready(ctx) })
}

// uids returns the UIDs of the pods that the API server has.
func (w *workload) uids() map[string]string {
	w.t.Helper()
	pods, err := w.pods(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return uids(pods)
}

// loseAPIServer stops the API server. Meanwhile pods run on and are probed, and one
// machine reboots. When it is back it learns what has become of the pods.
func loseAPIServer(w *workload) {
	w.t.Helper()
	before, err := w.pods(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	ids := w.running()
	w.awaitStored(w.Node(0), podsOn(before, "node-0"))
	if err := w.APIServer().Stop(); err != nil {
		w.t.Fatal(err)
	}
	gone := time.Now()
	resume := w.hang(w.Node(1), "pair/server")
	w.eventually("the server of the pair is unready and its client was restarted", func(ctx context.Context) error {
		pods, err := shown(ctx, w.Node(1))
		if err != nil {
			return err
		}
		if pair := pods["pair"]; pair == nil || condition(pair, corev1.PodReady) != corev1.ConditionFalse || restarts(pair, "client") < 1 {
			return fmt.Errorf("the pair is %v", pods["pair"])
		}
		return nil
	})
	w.reboot(w.Node(0), podsOn(before, "node-0"), ids)
	rest := time.NewTimer(outage() - time.Since(gone))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-w.t.Context().Done():
	}
	if err := w.APIServer().Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the API server knows of the pair", func(ctx context.Context) error {
		pods, err := w.pods(ctx)
		if err == nil && (condition(pods["pair"], corev1.PodReady) != corev1.ConditionFalse || restarts(pods["pair"], "client") < 1) {
			err = fmt.Errorf("it has conditions %v, statuses %v", pods["pair"].Status.Conditions, pods["pair"].Status.ContainerStatuses)
		}
		return err
	})
	resume()
	w.eventually("all pods are ready again", func(ctx context.Context) error { return w.ready(ctx) })
	w.checkAfterwards(before, ids)
}

// checkAfterwards wants the same pods as before, those of the machine that was rebooted
// restarted, and the others not.
func (w *workload) checkAfterwards(before map[string]*corev1.Pod, ids map[string]string) {
	w.t.Helper()
	var after map[string]*corev1.Pod
	w.eventually("the restarts are known", func(ctx context.Context) (err error) {
		if after, err = w.pods(ctx); err != nil {
			return err
		}
		for _, name := range podsOn(before, "node-0") {
			if pod := after[name]; pod != nil && pod.Labels["app"] == "many" && restarts(pod, "main") < 1 {
				return fmt.Errorf("pod %s was restarted %d times", name, restarts(pod, "main"))
			}
		}
		return nil
	})
	if diff := cmp.Diff(uids(before), uids(after)); diff != "" {
		w.t.Errorf("pods (-before +after):\n%s", diff)
	}
	now := w.running()
	for _, name := range podsOn(before, "node-1") {
		if key := name + "/main"; now[key] != ids[key] {
			w.t.Errorf("%s on the machine that ran on was container %s and is now %q", key, ids[key], now[key])
		}
	}
	w.eventually("the reboot is told", func(ctx context.Context) error {
		out, err := w.Kubectl(ctx, "", "get", "events", "-A", "-o", "jsonpath={range .items[*]}{.reason} {.involvedObject.name}{\"\\n\"}{end}")
		if err == nil && !strings.Contains(out, "Rebooted node-0\n") {
			err = errors.New("no event Rebooted")
		}
		return err
	})
}

func uids(pods map[string]*corev1.Pod) map[string]string {
	out := map[string]string{}
	for name, pod := range pods {
		out[name] = string(pod.UID)
	}
	return out
}

// hang stops the first process of a container, and returns what has it go on.
func (w *workload) hang(n *cluster.Node, container string) (resume func()) {
	w.t.Helper()
	pid, err := n.CRI().ContainerPID(w.t.Context(), w.running()[container])
	if err != nil {
		w.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	resume = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	w.t.Cleanup(resume) // a stopped process is slow to end
	return resume
}

// awaitStored waits until a node has its pods on the disk.
func (w *workload) awaitStored(n *cluster.Node, pods []string) {
	w.t.Helper()
	w.eventually("the pods of "+n.NodeName()+" are stored", func(ctx context.Context) error {
		out, err := n.Command(ctx, "sh", "-c", "cat /var/lib/kubelet/pod-store/*").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		for _, name := range pods {
			if !strings.Contains(string(out), `"name":"`+name+`"`) && !strings.HasPrefix(name, "once-") {
				return fmt.Errorf("pod %s is not there", name)
			}
		}
		if !strings.Contains(string(out), time.Now().UTC().Format("2006-01-02T")) {
			return errors.New("no contact was noted")
		}
		return nil
	})
}

// reboot imitates a reboot of a node's machine without the API server: the kubelet, the
// runtime and all containers are killed, and the kernel has another boot id.
func (w *workload) reboot(n *cluster.Node, pods []string, ids map[string]string) {
	w.t.Helper()
	if err := n.Kubelet().Kill(); err != nil {
		w.t.Fatal(err)
	}
	killContainers(w.t, n)
	if err := errors.Join(n.Runtime().Kill(), n.Runtime().Start(w.t.Context())); err != nil {
		w.t.Fatal(err)
	}
	id := n.Dir("settings", "kernel", "random", "boot_id")
	if err := os.MkdirAll(filepath.Dir(id), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(id, []byte("0b0e8f0c-6f1d-4b8e-9a57-2f6f6f0d2c11\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := n.Kubelet().Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the pods of "+n.NodeName()+" run again", func(ctx context.Context) error {
		now, err := containers(ctx, n)
		if err != nil {
			return err
		}
		for _, name := range pods {
			key := name + "/main"
			switch {
			case strings.HasPrefix(name, "once-"):
				if now[key] != "" {
					return testnode.Fatal(fmt.Errorf("the Job's pod %s runs again", name))
				}
			case now[key] == "" || now[key] == ids[key]:
				return fmt.Errorf("container %s is %q, it was %s", key, now[key], ids[key])
			}
		}
		return nil
	})
}

// killContainers kills all processes in the control groups of a node's pods.
func killContainers(t *testing.T, n *cluster.Node) {
	t.Helper()
	err := testnode.Eventually(t.Context(), patience, "no container runs", func(context.Context) error {
		files, err := filepath.Glob("/sys/fs/cgroup/memory" + n.CgroupRoot() + "/*/*/*/*/cgroup.procs")
		if err != nil {
			return err
		}
		more, err := filepath.Glob("/sys/fs/cgroup/memory" + n.CgroupRoot() + "/*/*/*/cgroup.procs")
		if err != nil {
			return err
		}
		left := 0
		for _, file := range append(files, more...) {
			data, err := os.ReadFile(file)
			if err != nil {
				continue // it went with its last process
			}
			for word := range strings.FieldsSeq(string(data)) {
				left++
				if pid, err := strconv.Atoi(word); err == nil {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		if left > 0 {
			return fmt.Errorf("%d processes were there", left)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// deleteNode deletes the object of a node: it is registered again, and its pods run on.
func deleteNode(w *workload) {
	w.t.Helper()
	n := w.Node(1)
	before, err := n.Object(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	ids := w.running()
	w.kubectl("", "delete", "node", n.NodeName())
	w.eventually("the node is registered again", func(ctx context.Context) error {
		object, err := n.Object(ctx)
		if err == nil && object.UID == before.UID {
			err = errors.New("it is the old one")
		}
		return err
	})
	if err := n.WaitReady(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("all pods are ready", func(ctx context.Context) error { return w.ready(ctx) })
	if diff := cmp.Diff(ids, w.running()); diff != "" {
		w.t.Errorf("containers (-before +after):\n%s", diff)
	}
}

// deletePods deletes all: nothing is left on the nodes.
func deletePods(w *workload) {
	w.t.Helper()
	// Owners first, so that nothing is made anew, and all by name: garbage collection is slow
	// after an outage.
	w.kubectl("", "delete", "deployment,replicaset,job,pod", "--all", "--timeout=240s")
	w.eventually("nothing runs", func(context.Context) error {
		if left := w.running(); len(left) > 0 {
			return fmt.Errorf("containers %v", left)
		}
		return nil
	})
	w.eventually("nothing is stored", func(ctx context.Context) error {
		for _, n := range w.Nodes() {
			out, err := n.Command(ctx, "ls", "/var/lib/kubelet/pod-store").Output()
			if err != nil {
				return err
			}
			if strings.Contains(string(out), "pod-") {
				return fmt.Errorf("on %s there is %s", n.NodeName(), out)
			}
		}
		return nil
	})
}
