# frozen_string_literal: true

require "strait"

# A gateway whose replies a test chooses. It records the requests.
class FakeGateway
  Wire = Strait::Wire

  # A request: the method's name, and the fields by number.
  Request = Struct.new(:name, :fields)

  attr_reader :address, :requests

  # The block gets each request but openSession and closeSession, and returns the fields of the result, a Strait::Error
  # class, :cut, or bytes to send as they are.
  def initialize(&answer)
    @answer = answer
    @requests = []
    @incarnation = 1
    @is_expired = false
    @lock = Mutex.new
    @server = TCPServer.new("127.0.0.1", 0)
    @address = "127.0.0.1:#{@server.local_address.ip_port}"
    @thread = Thread.new { accept }
    @thread.report_on_exception = false
  end

  def close
    @server.close
    @thread.join
  rescue IOError
    # Its thread was waiting for a connection.
  end

  # The requests for a method.
  def sent(method)
    @lock.synchronize { @requests.select { |request| request.name == method } }
  end

  # Ends the session: the next requests are unauthenticated until a new login.
  def expire
    @incarnation += 1
    @is_expired = true
  end

  private

  def accept
    loop do
      socket = @server.accept
      Thread.new { serve(socket) }
    end
  end

  def serve(socket)
    while (head = socket.read(4))
      frame = head + socket.read(head.unpack1("N"))
      method, number, fields = parsed(frame)
      request = Request.new(method, fields)
      @lock.synchronize { @requests << request }
      result = result_of(request)
      break if result == :cut

      socket.write(result.is_a?(String) ? result : reply(method, number, result))
    end
  rescue SystemCallError
    # The client closed the connection.
  ensure
    socket.close
  end

  def parsed(frame)
    decoder = Wire::Decoder.new(frame, 8)
    [decoder.bytes, decoder.u32, decoder.struct[1]]
  end

  def result_of(request)
    case request.name
    when "openSession"
      return Strait::Unauthenticated if @is_expired && request.fields[5]

      @is_expired = false
      { 1 => [Wire::BINARY, "token"], 7 => [Wire::I64, @incarnation] }
    when "closeSession" then {}
    else @is_expired ? Strait::Unauthenticated : @answer.call(request)
    end
  end

  # Wire writes calls only: the type of the message and the number of the field are changed.
  def reply(method, number, result)
    is_error = result.is_a?(Class)
    fields = is_error ? { 1 => [Wire::I32, code(result)], 3 => [Wire::BINARY, "as the test says"] } : result
    frame = Wire.request(method, number, fields)
    frame.setbyte(7, 2)
    frame.setbyte(18 + method.bytesize, is_error ? 1 : 0)
    method == "listDirectory" && !is_error ? with_entry(frame, 19 + method.bytesize) : frame
  end

  # Wire writes no list of structs: this one has /a/x.
  def with_entry(frame, at)
    entries = [Wire::LIST, 1, Wire::STRUCT, 1, Wire::BINARY, 1, 4, "/a/x", 0].pack("CnCNCnNa*C")
    body = frame.byteslice(4, at - 4) + entries + frame.byteslice(at..)
    [body.bytesize].pack("N") + body
  end

  def code(kind)
    (1..16).find { |code| Strait::Error.of_code(code) == kind }
  end
end
