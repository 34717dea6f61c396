package probes

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ErrNoAddress says that a probe goes to the address of its pod, which has none.
// Building it again may work once the pod has one.
var ErrNoAddress = errors.New("the pod has no address yet and the probe names no host")

// Clients do for a probe what this package cannot do by itself. A probe that
// needs one that is nil is a bad probe.
type Clients struct {
	// Exec runs commands in containers.
	Exec ExecFunc
	// GRPC makes a prober of a gRPC health service; the function New of package
	// probes/grpc is one.
	GRPC func(GRPCHealth) Prober
	// UserAgent replaces UserAgent in HTTP and gRPC probes; empty means UserAgent.
	UserAgent string
	// Reach decides which addresses the field host of HTTP and TCP probes may lead to; the
	// pod's own address is always reached. nil: every one.
	Reach Reach
}

// GRPCHealth says which gRPC health service to ask
// (https://github.com/grpc/grpc/blob/master/doc/health-checking.md).
type GRPCHealth struct {
	// Addr is host:port.
	Addr string
	// Service is what to ask for; empty means the server as a whole.
	Service string
	// TLS encrypts the connection, without verifying the certificate.
	TLS bool
	// UserAgent is what the client calls itself; empty means UserAgent.
	UserAgent string
}

// Target is the container that a corev1.Probe is about.
type Target struct {
	// Host is the address of the pod, without a port. It is needed unless the probe
	// names a host or runs a command.
	Host string
	// ContainerID is what commands are run in.
	ContainerID string
	// Ports are the ports that the probe may name.
	Ports []corev1.ContainerPort
	// Env are the variables that the command of the probe may refer to. Only those
	// with a literal value count.
	Env []corev1.EnvVar
	// Clients are used by gRPC and exec probes.
	Clients Clients
}

// handler builds the Prober for the one action that h must have.
func (t Target) handler(h *corev1.ProbeHandler) (Prober, error) {
	actions := 0
	for _, set := range []bool{h.Exec != nil, h.GRPC != nil, h.HTTPGet != nil, h.TCPSocket != nil} {
		if set {
			actions++
		}
	}
	switch {
	case actions == 0:
		return nil, errors.New("no action: set one of exec, grpc, httpGet, tcpSocket")
	case actions > 1:
		return nil, fmt.Errorf("%d actions: set only one of exec, grpc, httpGet, tcpSocket", actions)
	case h.Exec != nil:
		return t.exec(h.Exec)
	case h.GRPC != nil:
		return t.grpc(h.GRPC)
	case h.HTTPGet != nil:
		return t.http(h.HTTPGet)
	}
	return t.tcp(h.TCPSocket)
}

func (t Target) exec(a *corev1.ExecAction) (Prober, error) {
	if len(a.Command) == 0 {
		return nil, errors.New("exec.command is empty: name a program to run")
	}
	if t.Clients.Exec == nil {
		return nil, errors.New("exec: there is nothing to run commands with here; set Clients.Exec")
	}
	vars := literals(t.Env)
	command := make([]string, len(a.Command))
	for i, arg := range a.Command {
		command[i] = expand(arg, vars)
	}
	return Exec{Run: t.Clients.Exec, ContainerID: t.ContainerID, Command: command}, nil
}

func (t Target) grpc(a *corev1.GRPCAction) (Prober, error) {
	if t.Clients.GRPC == nil {
		return nil, errors.New("grpc: there is no gRPC client here; set Clients.GRPC")
	}
	addr, err := t.addr("grpc", "", intstr.FromInt32(a.Port))
	if err != nil {
		return nil, err
	}
	health := GRPCHealth{Addr: addr, UserAgent: t.userAgent()}
	if a.Service != nil {
		health.Service = *a.Service
	}
	if a.Mode != nil {
		switch *a.Mode {
		case corev1.GRPCProbeModePlaintext:
		case corev1.GRPCProbeModeTLS:
			health.TLS = true
		default:
			return nil, fmt.Errorf("grpc.mode is %q: it must be Plaintext or TLS", *a.Mode)
		}
	}
	return t.Clients.GRPC(health), nil
}

func (t Target) tcp(a *corev1.TCPSocketAction) (Prober, error) {
	addr, err := t.addr("tcpSocket", a.Host, a.Port)
	if err != nil {
		return nil, err
	}
	if reach := t.reach(a.Host); reach != nil {
		return boundTCP{TCP: TCP{Addr: addr}, reach: reach}, nil
	}
	return TCP{Addr: addr}, nil
}

// reach returns what decides about a host that a probe names, empty: the pod itself.
func (t Target) reach(host string) Reach {
	if host == "" {
		return nil
	}
	return t.Clients.Reach
}

func (t Target) http(a *corev1.HTTPGetAction) (Prober, error) {
	addr, err := t.addr("httpGet", a.Host, a.Port)
	if err != nil {
		return nil, err
	}
	h := HTTP{Header: http.Header{"User-Agent": {t.userAgent()}}, Reach: t.reach(a.Host)}
	scheme := strings.ToLower(string(a.Scheme))
	switch scheme {
	case "":
		scheme = "http"
	case "http", "https":
	default:
		return nil, fmt.Errorf("httpGet.scheme is %q: it must be HTTP or HTTPS", a.Scheme)
	}
	if a.Protocol != nil {
		switch *a.Protocol {
		case corev1.HTTPProtocolHTTP1:
		case corev1.HTTPProtocolHTTP2:
			h.HTTP2 = true
		default:
			return nil, fmt.Errorf("httpGet.protocol is %q: it must be HTTP1 or HTTP2", *a.Protocol)
		}
	}
	if h.Header, err = headers(h.Header, a.HTTPHeaders); err != nil {
		return nil, err
	}
	h.URL = urlOf(scheme, addr, a.Path)
	return h, nil
}

// headers adds those of the API to h: the first of a name replaces a default.
func headers(h http.Header, list []corev1.HTTPHeader) (http.Header, error) {
	own := make(http.Header, len(list))
	for i, entry := range list {
		if err := checkHeader(entry.Name, []string{entry.Value}); err != nil {
			return nil, fmt.Errorf("httpGet.httpHeaders[%d]: %w", i, err)
		}
		own.Add(entry.Name, entry.Value)
	}
	maps.Copy(h, own)
	return h, nil
}

// urlOf returns the URL of a path, which may have a query. What is no path as it
// stands is escaped.
func urlOf(scheme, addr, path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Opaque != "" {
		u = &url.URL{Path: path}
	}
	u.Scheme, u.Host, u.User, u.Fragment, u.RawFragment = scheme, addr, nil, "", ""
	return u.String()
}

// addr returns host:port of an action, given its own host and port.
func (t Target) addr(action, host string, port intstr.IntOrString) (string, error) {
	number, err := t.port(port)
	if err != nil {
		return "", fmt.Errorf("%s.port: %w", action, err)
	}
	if host == "" {
		host = t.Host
	}
	if host == "" {
		return "", fmt.Errorf("%s: %w", action, ErrNoAddress)
	}
	if strings.ContainsAny(host, "/?#@[] \t\r\n%\\\"<>") {
		return "", fmt.Errorf("%s.host is %q: give an address or a name, without brackets, port or path", action, host)
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// port returns the number of a port that may be given by the name of one of the
// container's ports, or by digits in a string.
func (t Target) port(port intstr.IntOrString) (int, error) {
	number := int(port.IntVal)
	if port.Type == intstr.String {
		var err error
		if number, err = t.portNamed(port.StrVal); err != nil {
			return 0, err
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("%d is no port: it must be between 1 and 65535", number)
	}
	return number, nil
}

func (t Target) portNamed(name string) (int, error) {
	var names []string
	for _, p := range t.Ports {
		if p.Name == name && name != "" {
			return int(p.ContainerPort), nil
		}
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	if number, err := strconv.Atoi(name); err == nil {
		return number, nil
	}
	known := "it has no named ports"
	if len(names) > 0 {
		known = "it has " + strings.Join(names, ", ")
	}
	return 0, fmt.Errorf("the container has no port named %q (%s): name one of its ports or give a number", name, known)
}

func (t Target) userAgent() string {
	if t.Clients.UserAgent != "" {
		return t.Clients.UserAgent
	}
	return UserAgent
}
