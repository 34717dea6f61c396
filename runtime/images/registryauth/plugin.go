package registryauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	credentialprovider "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	kjson "sigs.k8s.io/json"
)

const (
	// maxResponse bounds what a plugin may print: 1 MiB.
	maxResponse = 1 << 20
	// maxComplaint is how much of its standard error goes into an error.
	maxComplaint = 1 << 10
	// pipeGrace is how long the output of a plugin that was killed may stay open, for
	// instance because a child of its own has it.
	pipeGrace = time.Second
	// responseKind is the kind of a plugin's answer.
	responseKind = "CredentialProviderResponse"
)

// command is how a plugin is run.
type command struct {
	path string
	args []string
	// env is added to the environment of this process.
	env     []string
	timeout time.Duration
}

// runner gives a command its input and returns its output.
type runner func(ctx context.Context, c command, input []byte) ([]byte, error)

// run is the runner that makes a process.
func run(ctx context.Context, c command, input []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("it did not end within %s: %w", c.timeout, context.DeadlineExceeded))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	stdout, stderr := capped{limit: maxResponse}, capped{limit: maxComplaint}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	cmd.Env = append(os.Environ(), c.env...)
	cmd.WaitDelay = pipeGrace
	killGroup(cmd)
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		if text := strings.TrimSpace(string(stderr.kept)); text != "" {
			return nil, fmt.Errorf("%w: %s", err, strings.ToValidUTF8(text, "?"))
		}
		return nil, err
	case stdout.overrun:
		return nil, fmt.Errorf("it printed more than %d bytes", maxResponse)
	}
	return stdout.kept, nil
}

// capped keeps the beginning of what is written to it.
type capped struct {
	kept    []byte
	limit   int
	overrun bool
}

// Write never fails, so that a plugin that prints too much is not blocked.
func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.limit-len(c.kept))
	c.overrun = c.overrun || n < len(p)
	c.kept = append(c.kept, p[:n]...)
	return len(p), nil
}

// errResponse stands for all that can be wrong with the form of an answer. No text of
// the answer goes into it, as that may be a credential.
var errResponse = errors.New("it did not print one " + responseKind + " as JSON")

// request is what a plugin is asked.
type request struct {
	image       string
	token       string
	annotations map[string]string
}

func (r request) encode(apiVersion string) ([]byte, error) {
	out := credentialprovider.CredentialProviderRequest{
		Image: r.image, ServiceAccountToken: r.token, ServiceAccountAnnotations: r.annotations,
	}
	out.Kind, out.APIVersion = "CredentialProviderRequest", apiVersion
	return json.Marshal(out)
}

// response is what a plugin answered.
type response struct {
	auths    Auths
	scope    credentialprovider.PluginCacheKeyType
	duration *time.Duration
	// problem is about entries that cannot be used.
	problem error
}

// decodeResponse reads the output of a plugin that was asked in an API version.
func decodeResponse(data []byte, apiVersion string) (response, error) {
	var in credentialprovider.CredentialProviderResponse
	strict, err := kjson.UnmarshalStrict(data, &in)
	if err != nil || len(strict) > 0 || in.Kind != responseKind {
		return response{}, errResponse
	}
	if in.APIVersion != apiVersion {
		return response{}, fmt.Errorf("it answered in another API version than %s", apiVersion)
	}
	switch in.CacheKeyType {
	case credentialprovider.ImagePluginCacheKeyType, credentialprovider.RegistryPluginCacheKeyType, credentialprovider.GlobalPluginCacheKeyType:
	default:
		return response{}, errors.New("cacheKeyType of its answer is none of Image, Registry and Global")
	}
	out := response{scope: in.CacheKeyType, auths: make(Auths, len(in.Auth))}
	if in.CacheDuration != nil {
		out.duration = &in.CacheDuration.Duration
	}
	var errs []error
	for registry, auth := range in.Auth {
		if _, err := parseRegistry(registry); err != nil {
			errs = append(errs, fmt.Errorf("auth[%q] of its answer: %w", registry, err))
			continue
		}
		out.auths[registry] = Credential{Username: auth.Username, Password: auth.Password}
	}
	out.problem = errors.Join(errs...)
	return out, nil
}
