package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nodekit-go/nodekit/runtime/logs"
	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/conformance"
)

// serveLogs answers the API server in the place of our kubelets when it asks for the logs
// of containers; most specs look there for what their pods saw. It goes when the kubelet
// has it.
func serveLogs(ctx context.Context, kit conformance.Kit, nodes []*cluster.Node) (closeAll func(), err error) {
	var servers []*httptest.Server
	closeAll = func() {
		for _, s := range servers {
			s.Close()
		}
	}
	if kit.Kubelet != conformance.Ours {
		return closeAll, nil
	}
	for _, n := range nodes {
		s, err := serveLogsOf(ctx, n)
		if err != nil {
			closeAll()
			return nil, err
		}
		servers = append(servers, s)
	}
	return closeAll, nil
}

func serveLogsOf(ctx context.Context, n *cluster.Node) (*httptest.Server, error) {
	certificate, err := tls.LoadX509KeyPair(n.Dir("pki", "kubelet-serving.crt"), n.Dir("pki", "kubelet-serving.key"))
	if err != nil {
		return nil, fmt.Errorf("serve logs of %s: %w", n.NodeName(), err)
	}
	_, port, err := net.SplitHostPort(securePort)
	if err != nil {
		return nil, err
	}
	l, err := n.Listen(ctx, "tcp", net.JoinHostPort(n.Address().String(), port))
	if err != nil {
		return nil, fmt.Errorf("serve logs of %s: %w", n.NodeName(), err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /containerLogs/{namespace}/{pod}/{container}", podLogs(n.Private("log", "pods")))
	s := &httptest.Server{
		Listener: l, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute},
	}
	s.StartTLS()
	return s, nil
}

// podLogs is a folder with the logs of pods, served as by a kubelet.
type podLogs string

func (p podLogs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	file, err := p.find(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), query.Get("previous") == "true")
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	opts := logs.Options{Follow: query.Get("follow") == "true", Timestamps: query.Get("timestamps") == "true"}
	if n, err := strconv.ParseInt(query.Get("tailLines"), 10, 64); err == nil {
		opts.Tail = &n
	}
	if n, err := strconv.ParseInt(query.Get("limitBytes"), 10, 64); err == nil {
		opts.Limit = n
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	_ = logs.Copy(r.Context(), flushed{w}, file, opts) // who asked may have gone
}

// flushed sends what is written at once.
type flushed struct{ http.ResponseWriter }

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	return n, errors.Join(err, http.NewResponseController(f.ResponseWriter).Flush())
}

// find returns the log of the newest run of a container, or of the one before.
func (p podLogs) find(namespace, pod, container string, previous bool) (logs.File, error) {
	folders, err := filepath.Glob(filepath.Join(string(p), namespace+"_"+pod+"_*", container))
	if err != nil || len(folders) == 0 {
		return logs.File{}, errors.Join(err, fmt.Errorf("container %q in pod %q has no log yet", container, pod))
	}
	// Pods of one name follow each other, as those of a StatefulSet.
	newest := slices.MaxFunc(folders, func(a, b string) int { return modified(a).Compare(modified(b)) })
	folder, err := filepath.Rel(string(p), newest)
	if err != nil {
		return logs.File{}, err
	}
	attempts, err := logs.Attempts(string(p), folder)
	at := len(attempts) - 1
	if previous {
		at--
	}
	if err != nil || at < 0 {
		return logs.File{}, errors.Join(err, fmt.Errorf("container %q in pod %q has no such run", container, pod))
	}
	return logs.File{Root: string(p), Path: filepath.Join(folder, fmt.Sprintf("%d.log", attempts[at]))}, nil
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
