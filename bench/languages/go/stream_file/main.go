// stream_file read|write HOST:PORT PATH MIB [CA]: as stream_file.cpp, with the client for Go.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	strait "github.com/strait-fs/strait/clients/go"
)

func main() {
	mib, err := strconv.ParseInt(os.Args[4], 10, 64)
	check(err)
	options := &strait.Options{}
	if len(os.Args) > 5 {
		authority, err := os.ReadFile(os.Args[5])
		check(err)
		options.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		options.TLS.RootCAs.AppendCertsFromPEM(authority)
	}
	client, err := strait.Dial(context.Background(), os.Args[2], options)
	check(err)
	defer client.Close()
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	if os.Args[1] == "read" {
		read(client, os.Args[3], mib)
	} else {
		write(client, os.Args[3], mib)
	}
	fmt.Println("done")
}

func read(client *strait.Client, path string, mib int64) {
	reader, err := client.Open(context.Background(), path)
	check(err)
	defer reader.Close()
	piece, bytes := make([]byte, 1<<20), int64(0)
	for {
		count, err := reader.Read(piece)
		bytes += int64(count)
		if err == io.EOF {
			break
		}
		check(err)
	}
	if bytes != mib<<20 {
		log.Fatal("another length: ", bytes)
	}
}

func write(client *strait.Client, path string, mib int64) {
	writer, err := client.Create(context.Background(), path, nil)
	check(err)
	piece := make([]byte, 1<<20)
	for range mib {
		_, err := writer.Write(piece)
		check(err)
	}
	check(writer.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
