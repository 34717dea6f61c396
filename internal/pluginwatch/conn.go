package pluginwatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Bounds of what plugins tell. Names of Kubernetes have at most 253 characters, those of
// resources a prefix of that length.
const (
	maxName     = 512
	maxVersions = 64
	maxAnswer   = 64 << 10 // bytes
	maxReason   = 4 << 10  // bytes
)

// conn is a connection to the socket on which a plugin registers.
type conn struct {
	socket  string
	timeout time.Duration
	client  registerapi.RegistrationClient
	close   func()
}

// dial returns a connection, which is made by the first call.
func (w *Watcher) dial(socket string) (*conn, error) {
	c, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	return &conn{
		socket: socket, timeout: w.cfg.Timeout, client: registerapi.NewRegistrationClient(c),
		close: func() { _ = c.Close() }, // a second time it is an error without a meaning
	}, nil
}

// info asks who is there.
func (c *conn) info(ctx context.Context) (Plugin, error) {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.client.GetInfo(bounded, &registerapi.InfoRequest{})
	if err != nil {
		return Plugin{}, fmt.Errorf("ask %s who it is: %w", c.socket, err)
	}
	p, err := describe(answer, c.socket)
	if err != nil {
		return Plugin{}, c.refuse(ctx, err)
	}
	return p, nil
}

// describe checks what a plugin told about itself.
func describe(info *registerapi.PluginInfo, socket string) (Plugin, error) {
	p := Plugin{
		Type: info.GetType(), Name: info.GetName(), Endpoint: info.GetEndpoint(),
		Versions: info.GetSupportedVersions(), Socket: socket,
	}
	if p.Endpoint == "" {
		p.Endpoint = socket
	}
	switch {
	case p.Type == "" || len(p.Type) > maxName || !printable(p.Type):
		return Plugin{}, fmt.Errorf("the type of the plugin is %.64q, want a short name", p.Type)
	case p.Name == "" || len(p.Name) > maxName || !printable(p.Name):
		return Plugin{}, fmt.Errorf("the name of the plugin is %.64q, want one of at most %d bytes", p.Name, maxName)
	case !filepath.IsAbs(p.Endpoint) || strings.ContainsRune(p.Endpoint, 0):
		return Plugin{}, fmt.Errorf("the endpoint of the plugin is %.256q, want an absolute path", p.Endpoint)
	case len(p.Versions) > maxVersions:
		return Plugin{}, fmt.Errorf("the plugin names %d versions, want at most %d", len(p.Versions), maxVersions)
	}
	return p, nil
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar })
}

// accept tells a plugin that it is registered.
func (c *conn) accept(ctx context.Context) error {
	return c.notify(ctx, &registerapi.RegistrationStatus{PluginRegistered: true})
}

// refuse tells a plugin why it is not registered, and returns that.
func (c *conn) refuse(ctx context.Context, reason error) error {
	text := reason.Error()
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "")
	}
	return errors.Join(reason, c.notify(ctx, &registerapi.RegistrationStatus{Error: text}))
}

func (c *conn) notify(ctx context.Context, status *registerapi.RegistrationStatus) error {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if _, err := c.client.NotifyRegistrationStatus(bounded, status); err != nil {
		return fmt.Errorf("tell %s what became of it: %w", c.socket, err)
	}
	return nil
}
