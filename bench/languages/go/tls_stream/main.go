// tls_stream HOST:PORT MIB CA: as tls_stream.cpp, with crypto/tls.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strconv"
)

func main() {
	mib, err := strconv.ParseInt(os.Args[2], 10, 64)
	check(err)
	authority, err := os.ReadFile(os.Args[3])
	check(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	stream, err := tls.Dial("tcp", os.Args[1], &tls.Config{RootCAs: trusted})
	check(err)
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	_, err = stream.Write([]byte("!"))
	check(err)
	piece := make([]byte, 1<<20)
	for left := mib << 20; left > 0; {
		count, err := stream.Read(piece)
		check(err)
		left -= int64(count)
	}
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
