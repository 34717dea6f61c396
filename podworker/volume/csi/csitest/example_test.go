package csitest_test

import (
	"context"
	"fmt"
	"net"
	"os"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

func Example() {
	if err := fail(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// rpc error: code = Internal desc = no space
	// [NodePublishVolume NodePublishVolume]
}

func fail(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	driver, err := csitest.Start(csitest.Config{Dir: dir, Mounter: &csitest.Table{}})
	if err != nil {
		return err
	}
	defer driver.Stop()
	conn, err := dial(driver.Endpoint())
	if err != nil {
		return err
	}
	defer conn.Close()

	driver.Inject("NodePublishVolume", csitest.Fail(codes.Internal, "no space"), 1)
	node := csiapi.NewNodeClient(conn)
	_, err = node.NodePublishVolume(ctx, &csiapi.NodePublishVolumeRequest{VolumeId: "a", TargetPath: dir + "/target"})
	fmt.Println(err)
	_, err = node.NodePublishVolume(ctx, &csiapi.NodePublishVolumeRequest{VolumeId: "a", TargetPath: dir + "/target"})
	fmt.Println(driver.Ops())
	return err
}

func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///driver", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}))
}
