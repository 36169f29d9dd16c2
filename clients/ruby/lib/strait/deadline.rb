# frozen_string_literal: true

module Strait
  # A moment by the monotonic clock, in seconds: until then, a request takes, with all that belongs to it.
  class Deadline
    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def self.in(seconds)
      new(now + seconds)
    end

    attr_reader :at

    def initialize(at)
      @at = at
    end

    # The seconds left, 0 at least.
    def left
      [@at - Deadline.now, 0].max
    end

    def passed?
      left.zero?
    end

    # The earlier one of both.
    def or(other)
      other.at < @at ? other : self
    end

    def or_in(seconds)
      self.or(Deadline.in(seconds))
    end
  end
end
