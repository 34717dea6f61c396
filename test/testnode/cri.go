package testnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CRI is a plain connection to the node's containerd. It is the generated client
// and not package runtime, so that a test sees what is there by other eyes than
// those of the code under test.
type CRI struct {
	Runtime runtimeapi.RuntimeServiceClient
	Images  runtimeapi.ImageServiceClient
	conn    *grpc.ClientConn
}

func dialCRI(socket string) (*CRI, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd at %s: %w", socket, err)
	}
	return &CRI{
		Runtime: runtimeapi.NewRuntimeServiceClient(conn),
		Images:  runtimeapi.NewImageServiceClient(conn),
		conn:    conn,
	}, nil
}

func (c *CRI) ready(ctx context.Context) error {
	status, err := c.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	var errs []error
	for _, condition := range status.GetStatus().GetConditions() {
		// containerd 2 adds conditions of its own, such as one for what is deprecated.
		known := condition.GetType() == runtimeapi.RuntimeReady || condition.GetType() == runtimeapi.NetworkReady
		if known && !condition.GetStatus() {
			errs = append(errs, fmt.Errorf("%s: %s", condition.GetType(), condition.GetMessage()))
		}
	}
	return errors.Join(errs...)
}

// ContainerPID returns the process id, on this machine, of a container's first
// process.
func (c *CRI) ContainerPID(ctx context.Context, id string) (int, error) {
	status, err := c.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return 0, fmt.Errorf("ask for container %s: %w", id, err)
	}
	pid, err := infoPID(status.GetInfo()["info"])
	if err != nil {
		return 0, fmt.Errorf("find process of container %s: %w", id, err)
	}
	return pid, nil
}

// infoPID reads the process id from containerd's verbose container information.
func infoPID(info string) (int, error) {
	var parsed struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(info), &parsed); err != nil {
		return 0, fmt.Errorf("decode container information: %w", err)
	}
	if parsed.PID <= 0 {
		return 0, errors.New("the runtime names no process")
	}
	return parsed.PID, nil
}
