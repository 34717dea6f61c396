package cluster

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// controlPlane is the programs of the control plane.
type controlPlane struct {
	etcd, apiServer, controllerManager, scheduler *Program
}

// Etcd returns the API server's store.
func (c *Cluster) Etcd() *Program { return c.programs.etcd }

// APIServer returns the API server.
func (c *Cluster) APIServer() *Program { return c.programs.apiServer }

// ControllerManager returns the controllers, among them those of node leases and taints.
func (c *Cluster) ControllerManager() *Program { return c.programs.controllerManager }

// Scheduler returns the scheduler.
func (c *Cluster) Scheduler() *Program { return c.programs.scheduler }

// startControlPlane returns when the API server and all it needs run.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	for _, p := range []*Program{c.programs.etcd, c.programs.apiServer, c.programs.controllerManager, c.programs.scheduler} {
		if err := p.Start(ctx); err != nil {
			return err
		}
		c.cfg.Progress(p.Name() + " serves")
	}
	return c.applyManifests(ctx)
}

func (c *Cluster) newControlPlane() controlPlane {
	return controlPlane{
		etcd: &Program{
			name: "etcd",
			launch: func(context.Context) (*testnode.Process, error) {
				return c.plane.StartProcess("etcd", "etcd", c.etcdFlags()...)
			},
			ready: c.answers("http://127.0.0.1:2379/health"),
		},
		apiServer: &Program{
			name:   "kube-apiserver",
			launch: c.launcher("kube-apiserver", c.apiServerFlags()),
			ready:  func(ctx context.Context) error { return c.api.get(ctx, "/readyz", nil) },
		},
		controllerManager: &Program{
			name:   "kube-controller-manager",
			launch: c.launcher("kube-controller-manager", c.controllerManagerFlags()),
			ready:  c.answersTLS("https://127.0.0.1:10257/healthz"),
		},
		scheduler: &Program{
			name:   "kube-scheduler",
			launch: c.launcher("kube-scheduler", c.schedulerFlags()),
			ready:  c.answersTLS("https://127.0.0.1:10259/healthz"),
		},
	}
}

// launcher starts a program that Kubernetes releases beside the API server.
func (c *Cluster) launcher(name string, flags []string) func(context.Context) (*testnode.Process, error) {
	return func(ctx context.Context) (*testnode.Process, error) {
		binary, err := c.binaries.kubernetes(ctx, name)
		if err != nil {
			return nil, err
		}
		return c.plane.StartProcess(name, binary, flags...)
	}
}

func (c *Cluster) etcdFlags() []string {
	return []string{
		"--data-dir=" + c.plane.Dir("etcd"),
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--unsafe-no-fsync", // Nothing here survives the machine.
		// Before 3.4.31 and 3.5.13 the API server doesn't ask etcd how far its watches are
		// (feature_support_checker.go of k8s.io/apiserver), so etcd has to say it unasked and
		// within the 3 s for which a request waits. Else a watch of a quiet resource that
		// asks for the newest state ends at once whenever something else was written.
		"--experimental-watch-progress-notify-interval=1s",
	}
}

func (c *Cluster) apiServerFlags() []string {
	return []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=0.0.0.0", "--secure-port=" + strconv.Itoa(apiPort), "--advertise-address=" + hubAddress,
		"--tls-cert-file=" + c.pki("apiserver.crt"), "--tls-private-key-file=" + c.pki("apiserver.key"),
		"--client-ca-file=" + c.ca.certFile(),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--allow-privileged",
		"--service-cluster-ip-range=" + ServiceRange,
		"--service-account-issuer=https://kubernetes.default.svc." + ClusterDomain,
		"--service-account-key-file=" + c.pki("service-accounts.pub"),
		"--service-account-signing-key-file=" + c.pki("service-accounts.key"),
		"--kubelet-certificate-authority=" + c.ca.certFile(),
		"--kubelet-client-certificate=" + c.pki("apiserver-kubelet.crt"),
		"--kubelet-client-key=" + c.pki("apiserver-kubelet.key"),
		// Names of nodes are not resolved here.
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--requestheader-client-ca-file=" + c.front.certFile(), "--requestheader-allowed-names=" + frontProxyUser,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki("front-proxy.crt"), "--proxy-client-key-file=" + c.pki("front-proxy.key"),
		// It would let watches end by themselves when it is stopped, for up to a minute.
		"--shutdown-watch-termination-grace-period=1s",
		// The control plane has no way to virtual addresses.
		"--enable-aggregator-routing",
	}
}

func (c *Cluster) controllerManagerFlags() []string {
	kubeconfig := c.plane.Dir("controller-manager.kubeconfig")
	signedFor := c.cfg.SignedFor
	if signedFor == 0 {
		signedFor = 365 * 24 * time.Hour
	}
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--leader-elect=false",
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + c.pki("service-accounts.key"),
		"--root-ca-file=" + c.ca.certFile(),
		"--cluster-signing-cert-file=" + c.ca.certFile(), "--cluster-signing-key-file=" + c.ca.keyFile(),
		"--cluster-signing-duration=" + signedFor.String(),
		"--cluster-cidr=" + PodRange, "--service-cluster-ip-range=" + ServiceRange,
	}
}

func (c *Cluster) schedulerFlags() []string {
	kubeconfig := c.plane.Dir("scheduler.kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--leader-elect=false",
	}
}

func (c *Cluster) pki(name string) string { return c.plane.Dir("pki", name) }

// URL returns where the API server is, for everybody in the cluster.
func (c *Cluster) URL() string { return fmt.Sprintf("https://%s:%d", hubAddress, apiPort) }
