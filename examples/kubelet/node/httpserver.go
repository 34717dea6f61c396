package node

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/pprof"
	"path/filepath"
	goruntime "runtime"
	"strconv"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/runtime/server"
)

// API replaces parts of the node's HTTPS API. The zero value is that of the configuration.
type API struct {
	// Protect lets those requests through that may come; nil: as authentication and
	// authorization of the configuration say.
	Protect func(http.Handler) http.Handler
	// Wrap goes around all of the HTTPS API, for tracing, as NewHandler of OpenTelemetry's
	// otelhttp does; nil: nothing does, which costs nothing.
	Wrap func(http.Handler) http.Handler
	// TLS has the certificate; nil: tlsCertFile and tlsPrivateKeyFile of the configuration,
	// or one that the cluster signs, or one that the node signs itself.
	TLS *tls.Config
	// CertDir is the directory of the certificates that the node gets or makes; empty: pki
	// in the directory of its own data.
	CertDir string
	// SetVerbosity is given how much is to be logged, as put at /debug/flags/v; nil: that is
	// switched off.
	SetVerbosity func(level string) error
	// Flags returns the flags of the command line and their values, which /flagz shows; nil:
	// it is not there.
	Flags func() map[string]string
}

// apiHooks are what other parts of the node bring to its API before it is served.
type apiHooks struct {
	stats, metrics http.Handler
	requests       func(server.Request) (ended func())
}

// newAPI returns the server of the kubelet's HTTPS API.
func (n *Node) newAPI(g *gate) (*server.Server, error) {
	k := n.cfg.Kubelet
	metrics := n.api.metrics
	if metrics == nil {
		metrics = n.cfg.metrics.handler()
	}
	late := lateContainers{n}
	return server.New(server.Config{
		Protect:    wrapped(g.protect, n.cfg.API.Wrap),
		Pods:       apiPods{n},
		Containers: server.Containers{Logs: late, Streams: late, Commands: late, Checkpoints: late, Running: late},
		Health:     n.checks(),
		Pages:      n.pages(metrics),
		Debug:      n.debugging(),
		Limits:     server.Limits{StreamIdle: k.StreamingConnectionIdleTimeout.Duration},
		Requests:   n.api.requests,
		Log:        n.log,
	})
}

// wrapped puts something around what lets requests through, so that it sees the refused ones,
// too. With nothing that lets any through, the API stays closed.
func wrapped(protect, wrap func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	if protect == nil || wrap == nil {
		return protect
	}
	return func(h http.Handler) http.Handler { return wrap(protect(h)) }
}

// hostLogs is the folder of the machine's logs, as in a kubelet.
const hostLogs = "/var/log"

// debugging says what the configuration switches on.
func (n *Node) debugging() server.Debug {
	k := n.cfg.Kubelet
	d := server.Debug{Disabled: !*k.EnableDebuggingHandlers}
	if *k.EnableSystemLogHandler {
		d.HostLogs = hostLogs
		if *k.EnableSystemLogQuery { // the gate NodeLogQuery is locked to on
			d.Journal = server.Journalctl{}
		}
	}
	if *k.EnableDebugFlagsHandler {
		d.SetVerbosity = n.cfg.API.SetVerbosity
	}
	if *k.EnableProfilingHandler {
		d.Profiling = profiles()
	}
	return d
}

// profiles serves what the runtime of Go knows of this process.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// profileBlocking records where goroutines wait for each other, if the configuration wants
// it. It concerns the whole process.
func profileBlocking(k *kubeletconfig.KubeletConfiguration) {
	if *k.EnableDebuggingHandlers && *k.EnableProfilingHandler && k.EnableContentionProfiling {
		goruntime.SetBlockProfileRate(1)
	}
}

// shown is the configuration as /configz shows it: with its kind and, as of a stock
// kubelet, all values and the cgroup driver that the runtime named, once it has. Who may see
// it may do so by a permission of its own.
func (n *Node) shown() *kubeletconfig.KubeletConfiguration {
	k := n.cfg.Kubelet.DeepCopy()
	if n.agent.get() != nil { // the driver is known and does not change any more
		k.CgroupDriver = n.driver
	}
	k.SetGroupVersionKind(kubeletconfig.SchemeGroupVersion.WithKind("KubeletConfiguration"))
	return k
}

// secureAddress returns where the HTTPS API is served; empty: nowhere.
func secureAddress(k *kubeletconfig.KubeletConfiguration) string {
	if !*k.EnableServer {
		return ""
	}
	return net.JoinHostPort(k.Address, strconv.Itoa(int(k.Port)))
}

// checkpointDir is where checkpoints of containers are written.
func (n *Node) checkpointDir() string { return filepath.Join(n.cfg.Root, "checkpoints") }

// newCRI returns what is done with containers on a runtime.
func (n *Node) newCRI(rt Runtime) (*server.CRI, error) {
	return server.NewCRI(rt, server.CRIConfig{
		LogRoot:       n.cfg.Kubelet.PodLogsDir,
		CheckpointDir: n.checkpointDir(),
	})
}
