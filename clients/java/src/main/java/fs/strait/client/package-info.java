/**
 * Files of any store behind a Strait gateway, in Java's usual terms: streams, channels and the
 * exceptions of {@link java.nio.file}. Begin with {@link fs.strait.client.StraitClient}.
 */
package fs.strait.client;
