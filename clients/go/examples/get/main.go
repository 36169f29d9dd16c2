// Get reads a remote file, and prints the speed.
//
//	get [-to FILE] [-read BYTES] [-blocking] [-write BYTES] ADDRESS PATH
//
// It reads into memory in pieces of BYTES (1 MiB), or copies to FILE. With -blocking each piece is
// a separate request that waits for its reply. With -write it makes the file instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	strait "github.com/strait-fs/strait/clients/go"
)

func main() {
	to := flag.String("to", "", "copy to this `FILE`")
	piece := flag.Int("read", 1<<20, "`BYTES` of a piece")
	blocking := flag.Bool("blocking", false, "a request for each piece")
	write := flag.Int64("write", 0, "write this many `BYTES`")
	flag.Parse()
	if flag.NArg() != 2 || *piece <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx := context.Background()
	client, err := strait.Dial(ctx, flag.Arg(0), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	began := time.Now()
	var done int64
	switch path := flag.Arg(1); {
	case *write > 0:
		done, err = put(ctx, client, path, make([]byte, *piece), *write)
	case *to != "":
		done, err = client.Get(ctx, path, *to, false)
	default:
		done, err = fetch(ctx, client, path, make([]byte, *piece), *blocking)
	}
	if err != nil {
		log.Fatal(err)
	}
	took := time.Since(began).Seconds()
	fmt.Printf("%d bytes in %.3f s: %.0f MB/s\n", done, took, float64(done)/1e6/took)
}

func fetch(
	ctx context.Context, client *strait.Client, path string, piece []byte, blocking bool,
) (done int64, err error) {
	reader, err := client.Open(ctx, path)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	for {
		var count int
		if blocking {
			count, err = reader.ReadAt(piece, done)
		} else {
			count, err = reader.Read(piece)
		}
		done += int64(count)
		if err == io.EOF {
			return done, nil
		}
		if err != nil {
			return done, err
		}
	}
}

func put(ctx context.Context, client *strait.Client, path string, piece []byte, bytes int64) (int64, error) {
	writer, err := client.Create(ctx, path, &strait.CreateOptions{Overwrite: true})
	if err != nil {
		return 0, err
	}
	defer writer.Abandon()
	for left := bytes; left > 0; left -= int64(len(piece)) {
		piece = piece[:min(left, int64(len(piece)))]
		if _, err := writer.Write(piece); err != nil {
			return 0, err
		}
	}
	return bytes, writer.Close()
}
