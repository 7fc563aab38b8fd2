package encryption

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/metrics"
	kmsapi "k8s.io/kms/apis/v2"
	"k8s.io/kms/pkg/service"
	"k8s.io/kms/pkg/util"
)

// A plugin is what encrypts the seeds of a provider, until it is closed.
type plugin interface {
	service.Service
	Close() error
}

// A dialer returns the plugin at an endpoint, for the provider with a name.
type dialer func(endpoint, provider string) (plugin, error)

// A remote is a plugin behind a socket. The library's client is not used because it cannot be
// waited for when it ends, and because requests would wait for a plugin that does not run.
type remote struct {
	connection *grpc.ClientConn
	client     kmsapi.KeyManagementServiceClient
}

// dial is a dialer. The plugin is connected with the first call, and again within a second after
// the connection was lost.
func dial(endpoint, provider string) (plugin, error) {
	path, err := util.ParseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient("passthrough:///kms",
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket has the modes of a file
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithUnaryInterceptor(measured(provider)),
	)
	if err != nil {
		return nil, fmt.Errorf("KMS plugin at %s: %w", endpoint, err)
	}
	return remote{connection, kmsapi.NewKeyManagementServiceClient(connection)}, nil
}

// Close implements plugin. Running calls fail.
func (r remote) Close() error { return r.connection.Close() }

// Status implements service.Service. It waits for a plugin that is about to start.
func (r remote) Status(ctx context.Context) (*service.StatusResponse, error) {
	response, err := r.client.Status(ctx, &kmsapi.StatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	return &service.StatusResponse{Version: response.Version, Healthz: response.Healthz, KeyID: response.KeyId}, nil
}

// Encrypt implements service.Service.
func (r remote) Encrypt(ctx context.Context, uid string, data []byte) (*service.EncryptResponse, error) {
	response, err := r.client.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: data, Uid: uid})
	if err != nil {
		return nil, err
	}
	return &service.EncryptResponse{Ciphertext: response.Ciphertext, KeyID: response.KeyId, Annotations: response.Annotations}, nil
}

// Decrypt implements service.Service.
func (r remote) Decrypt(ctx context.Context, uid string, what *service.DecryptRequest) ([]byte, error) {
	response, err := r.client.Decrypt(ctx, &kmsapi.DecryptRequest{Ciphertext: what.Ciphertext, Uid: uid, KeyId: what.KeyID, Annotations: what.Annotations})
	if err != nil {
		return nil, err
	}
	return response.Plaintext, nil
}

// measured records how long calls take.
func measured(provider string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, response any, c *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		start := time.Now()
		err := call(ctx, method, request, response, c, opts...)
		metrics.RecordKMSOperationLatency(provider, method, time.Since(start), err)
		return err
	}
}
