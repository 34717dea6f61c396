package devicestest_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/internal/plugintest"
)

// agent is the least that plugins need of one: it takes them and reads their lists.
type agent struct {
	deviceapi.UnimplementedRegistrationServer
	dir    string
	server *plugintest.Server
	lists  chan string
	// reading reads lists until ctx ends.
	reading sync.WaitGroup
	ctx     context.Context
	end     context.CancelFunc
}

func newAgent(ctx context.Context, dir string) (*agent, error) {
	a := &agent{dir: dir, lists: make(chan string, 4)}
	a.ctx, a.end = context.WithCancel(ctx)
	var err error
	a.server, err = plugintest.Serve(filepath.Join(dir, "kubelet.sock"), func(s *grpc.Server) { deviceapi.RegisterRegistrationServer(s, a) })
	return a, err
}

func (a *agent) stop() {
	a.end()
	a.server.Stop()
	a.reading.Wait()
}

// next returns the next list.
func (a *agent) next() string { return <-a.lists }

// Register takes the one plugin of the test.
func (a *agent) Register(_ context.Context, r *deviceapi.RegisterRequest) (*deviceapi.Empty, error) {
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(a.dir, r.GetEndpoint()))
		}))
	if err != nil {
		return nil, err
	}
	stream, err := deviceapi.NewDevicePluginClient(conn).ListAndWatch(a.ctx, &deviceapi.Empty{})
	if err != nil {
		return nil, err
	}
	a.reading.Go(func() {
		defer conn.Close()
		for {
			answer, err := stream.Recv()
			if err != nil {
				return
			}
			var devices []string
			for _, d := range answer.GetDevices() {
				devices = append(devices, d.GetID()+" "+d.GetHealth())
			}
			select {
			case a.lists <- fmt.Sprintf("%s: %s", r.GetResourceName(), strings.Join(devices, ", ")):
			case <-a.ctx.Done():
			}
		}
	})
	return &deviceapi.Empty{}, nil
}
