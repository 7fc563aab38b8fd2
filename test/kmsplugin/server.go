package kmsplugin

import (
	"net"
	"sync"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
	"k8s.io/kms/pkg/service"
)

// A Server serves a plugin on a socket. It owns a goroutine until Close.
type Server struct {
	server  *grpc.Server
	running sync.WaitGroup
}

// Serve serves a plugin on the socket at a path, which must not exist.
func Serve(path string, plugin service.Service) (*Server, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &Server{server: grpc.NewServer()}
	kmsapi.RegisterKeyManagementServiceServer(s.server, service.NewGRPCService("", 0, plugin))
	s.running.Go(func() { _ = s.server.Serve(listener) }) // an error of Accept is that of Close
	return s, nil
}

// Close ends running calls and removes the socket.
func (s *Server) Close() {
	s.server.Stop()
	s.running.Wait()
}
