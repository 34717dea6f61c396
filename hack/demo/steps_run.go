package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/test/testnode"
)

//go:embed manifests
var manifests embed.FS

// write copies a manifest of the demonstration to a folder of the node, by
// rename, so that nobody reads half of it.
func write(dir, name string) error {
	data, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	temporary := filepath.Join(dir, "."+name)
	if err := os.WriteFile(temporary, data, 0o644); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return os.Rename(temporary, filepath.Join(dir, name))
}

// podName is the static pod's name on the node.
func podName(manifest string) string {
	return strings.TrimSuffix(manifest, ".yaml") + "-" + testnode.NodeName
}

// allPods are the pods of the three good manifests.
func allPods() []string {
	return []string{podName("web-1.yaml"), podName("web-2.yaml"), podName("web-3.yaml")}
}

func (d *demo) runPods(ctx context.Context) error {
	files := []string{"broken.yaml", "web-1.yaml", "web-2.yaml", "web-3.yaml"}
	d.report.does("write %s to the kubelet's manifest folder", strings.Join(files, ", "))
	d.report.expects("the three web pods run; broken.yaml is named with line and reason")
	started := time.Now()
	for _, file := range files {
		if err := write(d.node.Manifests(), file); err != nil {
			return err
		}
	}
	pods, err := d.waitForPods(ctx, allPods())
	if err != nil {
		return err
	}
	took := since(started)
	d.report.table(podRows(pods)...)
	if err := d.waitForBroken(ctx); err != nil {
		return err
	}
	d.report.saw("%s", d.manifests)
	d.report.fact("three pods ran %s after their manifests were written", took)
	if err := d.checkLog(); err != nil {
		return err
	}
	row := brokenRow.FindStringSubmatch(d.manifests)
	d.report.fact("the broken manifest beside them is named, at the status page and in the log: %s, %s", row[1], row[2])
	return nil
}

// waitForPods waits until the kubelet reports exactly these pods, all ready.
func (d *demo) waitForPods(ctx context.Context, names []string) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	what := "exactly these pods are ready: " + strings.Join(names, ", ")
	err := testnode.Eventually(ctx, patience, what, func(ctx context.Context) error {
		var err error
		if pods, err = d.kubelet.Pods(ctx); err != nil {
			return err
		}
		var have, unready []string
		for _, pod := range pods {
			have = append(have, pod.Name)
			if !isReady(&pod) {
				unready = append(unready, fmt.Sprintf("%s (%s)", pod.Name, pod.Status.Phase))
			}
		}
		slices.Sort(have)
		if !slices.Equal(have, names) {
			return fmt.Errorf("the kubelet has %q", have)
		}
		if len(unready) > 0 {
			return fmt.Errorf("not ready: %s", strings.Join(unready, ", "))
		}
		return nil
	})
	return pods, err
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podRows(pods []corev1.Pod) []string {
	rows := []string{"pod\tphase\taddress\trestarts"}
	for _, pod := range pods {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d", pod.Name, pod.Status.Phase, pod.Status.PodIP, restarts(&pod)))
	}
	return rows
}

func restarts(pod *corev1.Pod) int {
	var sum int
	for _, status := range pod.Status.ContainerStatuses {
		sum += int(status.RestartCount)
	}
	return sum
}

// brokenRow is how the kubelet's table names the broken manifest: the file, the
// line and the field with the wrong value.
var brokenRow = regexp.MustCompile(`(?m)^(broken\.yaml) +invalid +12 .*(line 12: .*containerPort.*)$`)

// waitForBroken waits until the kubelet's table of manifests names the mistake.
func (d *demo) waitForBroken(ctx context.Context) error {
	return testnode.Eventually(ctx, patience, "the kubelet names broken.yaml, line 12 and its field", func(ctx context.Context) error {
		table, err := d.kubelet.Get(ctx, "/manifests")
		if err != nil {
			return err
		}
		d.manifests = strings.TrimRight(string(table), "\n")
		if !brokenRow.Match(table) {
			return fmt.Errorf("its table is:\n%s", d.manifests)
		}
		return nil
	})
}

// checkLog looks for the same in the kubelet's log.
func (d *demo) checkLog() error {
	log, err := os.ReadFile(d.kubelet.Log)
	if err != nil {
		return fmt.Errorf("read the kubelet's log: %w", err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "broken.yaml") && strings.Contains(line, "line 12") {
			return nil
		}
	}
	return fmt.Errorf("the kubelet's log %s does not name broken.yaml and line 12", d.kubelet.Log)
}

func (d *demo) serve(ctx context.Context) error {
	d.report.does("write service.yaml, which selects app=web, and send %d requests to http://%s", requests, virtualIP)
	d.report.expects("all are answered, and each of the three pods answers some")
	started := time.Now()
	if err := write(d.node.Services(), "service.yaml"); err != nil {
		return err
	}
	if err := d.waitForAnswers(ctx, allPods()); err != nil {
		return err
	}
	d.report.saw("all three answered %s after the Service was written", since(started))
	return d.requestTable(ctx, allPods())
}

// waitForAnswers sends rounds of requests until exactly these pods answer.
func (d *demo) waitForAnswers(ctx context.Context, pods []string) error {
	what := fmt.Sprintf("http://%s is answered by %s", virtualIP, strings.Join(pods, ", "))
	return testnode.Eventually(ctx, patience, what, func(ctx context.Context) error {
		answers, err := d.ask(ctx)
		if err != nil {
			return err
		}
		if have := slices.Sorted(maps.Keys(answers)); !slices.Equal(have, pods) {
			return fmt.Errorf("it is answered by %s", strings.Join(have, ", "))
		}
		return nil
	})
}

// ask sends the requests and counts the answers by pod. It stops at a failure.
func (d *demo) ask(ctx context.Context) (map[string]int, error) {
	answers := map[string]int{}
	for i := range requests {
		body, err := d.node.Get(ctx, "http://"+virtualIP)
		if err != nil {
			return nil, fmt.Errorf("request %d of %d: %w", i+1, requests, err)
		}
		answers[strings.TrimSpace(string(body))]++
	}
	return answers, nil
}

// requestTable sends the requests, prints who answered, and returns an error
// unless exactly these pods did.
func (d *demo) requestTable(ctx context.Context, pods []string) error {
	answers, err := d.ask(ctx)
	if err != nil {
		return err
	}
	rows, counts := []string{"pod\tanswers"}, []string{}
	for _, pod := range slices.Sorted(maps.Keys(answers)) {
		rows = append(rows, fmt.Sprintf("%s\t%d", pod, answers[pod]))
		counts = append(counts, fmt.Sprintf("%s %d", pod, answers[pod]))
	}
	d.report.table(rows...)
	if have := slices.Sorted(maps.Keys(answers)); !slices.Equal(have, pods) {
		return fmt.Errorf("http://%s was answered by %s", virtualIP, strings.Join(have, ", "))
	}
	d.report.fact("%d of %d requests to %s answered: %s", requests, requests, virtualIP, strings.Join(counts, ", "))
	return nil
}

func (d *demo) killContainer(ctx context.Context) error {
	victim := podName("web-2.yaml")
	before, err := d.look(ctx)
	if err != nil {
		return err
	}
	d.report.does("kill -9 process %d, the container of %s", before[victim].pid, victim)
	d.report.expects("a new container with restart count 1; the other pods are not touched")
	killed := time.Now()
	if err := syscall.Kill(before[victim].pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill process %d: %w", before[victim].pid, err)
	}
	var after snapshot
	what := victim + " is ready again with restart count 1"
	err = testnode.Eventually(ctx, patience, what, func(ctx context.Context) error {
		pod, err := d.kubelet.Pod(ctx, victim)
		if err != nil {
			return err
		}
		if restarts(pod) != 1 || !isReady(pod) {
			return fmt.Errorf("it is %s with restart count %d", pod.Status.Phase, restarts(pod))
		}
		after, err = d.look(ctx)
		return err
	})
	if err != nil {
		return err
	}
	took := since(killed)
	if after[victim].id == before[victim].id {
		return errors.New("the runtime still shows the old container")
	}
	delete(before, victim)
	others := maps.Clone(after)
	delete(others, victim)
	if changes := before.changes(others); changes != "" {
		return fmt.Errorf("other pods changed: %s", changes)
	}
	d.report.table(after.rows()...)
	d.report.fact("a killed container ran again after %s with restart count 1", took)
	return d.waitForAnswers(ctx, allPods())
}

func (d *demo) removeManifest(ctx context.Context) error {
	left := allPods()[:2]
	gone := podName("web-3.yaml")
	d.report.does("rm web-3.yaml")
	d.report.expects("its pod and its endpoint are gone; the other two answer everything")
	removed := time.Now()
	if err := os.Remove(filepath.Join(d.node.Manifests(), "web-3.yaml")); err != nil {
		return fmt.Errorf("remove manifest: %w", err)
	}
	if err := d.waitForAnswers(ctx, left); err != nil {
		return err
	}
	d.report.saw("no request reached it %s after the manifest was removed", since(removed))
	pods, err := d.waitForPods(ctx, left)
	if err != nil {
		return err
	}
	d.report.table(podRows(pods)...)
	err = testnode.Eventually(ctx, patience, "the runtime knows nothing of "+gone, func(ctx context.Context) error {
		return d.forgotten(ctx, gone)
	})
	if err != nil {
		return err
	}
	d.report.fact("with its manifest, pod %s and its endpoint went away", gone)
	return d.requestTable(ctx, left)
}

func (d *demo) crashKubelet(ctx context.Context) error {
	left := allPods()[:2]
	before, err := d.look(ctx)
	if err != nil {
		return err
	}
	d.report.does("kill -9 the kubelet (process %d), send %d requests, start it again", d.kubelet.PID(), requests)
	d.report.expects("the pods answer all the while, and no container is started again")
	if err := d.kubelet.Kill(); err != nil {
		return err
	}
	if err := d.requestTable(ctx, left); err != nil {
		return err
	}
	if err := d.startKubelet(ctx); err != nil {
		return err
	}
	if _, err := d.waitForPods(ctx, left); err != nil {
		return err
	}
	// A manifest that was not there before shows that the new kubelet has been
	// through its pods and acts.
	d.report.does("write web-3.yaml again, so that we see the new kubelet act")
	if err := write(d.node.Manifests(), "web-3.yaml"); err != nil {
		return err
	}
	pods, err := d.waitForPods(ctx, allPods())
	if err != nil {
		return err
	}
	after, err := d.look(ctx)
	if err != nil {
		return err
	}
	delete(after, podName("web-3.yaml"))
	if changes := before.changes(after); changes != "" {
		return errors.New(changes)
	}
	d.report.table(after.rows()...)
	for _, pod := range pods {
		if want := map[string]int{podName("web-2.yaml"): 1}[pod.Name]; restarts(&pod) != want {
			return fmt.Errorf("the new kubelet gives %s the restart count %d; it was %d", pod.Name, restarts(&pod), want)
		}
	}
	d.report.fact("after kill -9 and a new start of the kubelet the same %d containers run", len(after))
	return nil
}
