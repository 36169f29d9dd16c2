/**
 * Files of any store behind a Strait gateway, as Java programs know files: streams, channels and
 * the exceptions of {@link java.nio.file}. Begin with {@link fs.strait.client.StraitClient}.
 */
package fs.strait.client;
