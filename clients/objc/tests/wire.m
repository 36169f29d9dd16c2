// The codec against hostile bytes: it says what is wrong, reads nothing beyond the frame, and allocates no more than
// the frame can fill.
#import "StraitKit/StraitWire.h"
#include <stdio.h>
#include <stdlib.h>

static void check(BOOL holds, NSString *what) {
    if (holds)
        return;
    fprintf(stderr, "not as expected: %s\n", [what UTF8String]);
    exit(1);
}

static NSMutableData *bytes(NSString *hex) {
    NSMutableData *data = [NSMutableData data];
    NSString *digits = [hex stringByReplacingOccurrencesOfString:@" " withString:@""];
    for (NSUInteger index = 0; index + 1 < [digits length]; index += 2) {
        uint8_t byte = strtoul([[digits substringWithRange:NSMakeRange(index, 2)] UTF8String], NULL, 16);
        [data appendBytes:&byte length:1];
    }
    return data;
}

/** A reply to the call number 7 of `m`, with these bytes as its result. */
static NSMutableData *reply(NSString *hex) {
    NSMutableData *frame = bytes(@"80010002 00000001 6d 00000007");
    [frame appendData:bytes(hex)];
    return frame;
}

/** Why a frame is no reply; nil if it is one. */
static NSString *fault(NSData *frame) {
    NSString *why = nil;
    StraitMessage *result = StraitDecodedReply(frame, @"m", 7, &why);
    check((result == nil) == (why != nil), @"a reply or a reason");
    return why;
}

static void checkRoundTrip(void) {
    StraitMessage *inner = [StraitMessage messageWithFields:1, StraitText(@"grüße"), 2, StraitNumber(StraitI64, -2), 0];
    StraitMessage *sent =
        [StraitMessage messageWithFields:1, StraitNested(inner), 2, StraitFlag(YES), 3, StraitNumber(StraitI16, -300),
                                         4, StraitNumber(StraitI32, INT32_MIN), 5, StraitData(bytes(@"00ff")), 6,
                                         StraitTexts([NSArray arrayWithObjects:@"a", @"", nil]), 7, nil, 0];
    NSMutableData *frame = [NSMutableData dataWithData:StraitEncodedCall(@"m", 7, sent)];
    check(StraitFrameSize(frame) == (NSInteger)[frame length] - 4, @"the frame's size");
    [frame replaceBytesInRange:NSMakeRange(0, 8) withBytes:"\x80\x01\x00\x02" length:4]; // as a reply
    NSString *why = nil;
    StraitMessage *got = StraitDecodedReply(frame, @"m", 7, &why);
    check([[[got messageIn:1] textIn:1] isEqual:@"grüße"] && [[got messageIn:1] numberIn:2] == -2, @"a message in it");
    check([got numberIn:2] == 1 && [got numberIn:3] == -300 && [got numberIn:4] == INT32_MIN, @"numbers");
    check([[got dataIn:5] isEqual:bytes(@"00ff")] && [[got textsIn:6] count] == 2, @"bytes and lists");
    check(![got hasField:7] && [got textIn:2] == nil && [got numberIn:5] == 0, @"absent fields, and other types");
}

static void checkLengths(void) {
    for (NSUInteger length = 0; length < 13; length++)
        check(fault([reply(@"") subdataWithRange:NSMakeRange(0, length)]) != nil, @"half a head");
    check(!fault(reply(@"00")), @"an empty result");
    check(fault(reply(@"")) != nil, @"no end of the result");
    check(fault(reply(@"0000")) != nil, @"bytes behind the result");
    check(fault(reply(@"0b0000 7fffffff 6100")) != nil, @"a string of 2 GiB");
    check(fault(reply(@"0b0000 ffffffff 6100")) != nil, @"a string of -1 bytes");
    check(fault(reply(@"0f0000 02 7fffffff 00 00")) != nil, @"a list of 2^31 items");
    check(fault(reply(@"0f0000 02 ffffffff 00")) != nil, @"a list of -1 items");
    check(fault(reply(@"0d0000 0b0b 40000000 00")) != nil, @"a map of 2^30 pairs");
    check(!fault(reply(@"0d0000 0b08 00000001 00000001 61 00000001 00")), @"a map, which is read over");
    check(fault(reply(@"010000 00")) != nil && fault(reply(@"ff0000 00")) != nil, @"unknown types");
    check(StraitFrameSize(bytes(@"01000001")) == -1 && StraitFrameSize(bytes(@"ffffffff")) == -1, @"frames too large");
    check(StraitFrameSize(bytes(@"01000000")) == 16 << 20 && StraitFrameSize(bytes(@"0100")) == -1, @"frames");
}

static void checkDepthAndNumber(void) {
    NSMutableData *deep = reply(@"");
    for (int depth = 0; depth < 100000; depth++)
        [deep appendData:bytes(@"0c0001")];
    check(fault(deep) != nil, @"messages in messages");
    NSMutableData *lists = reply(@"0f0001");
    for (int depth = 0; depth < 100000; depth++)
        [lists appendBytes:"\x0f\0\0\0\1" length:5];
    check(fault(lists) != nil, @"lists in lists");
    NSMutableData *many = reply(@"0f0000 02 00f00000");
    [many increaseLengthBy:15 << 20];
    [many increaseLengthBy:1];
    check(fault(many) != nil, @"15 million values");
}

static void checkOtherReplies(void) {
    NSMutableData *frame = reply(@"00");
    check(fault(bytes(@"80010002 00000001 6d 00000008 00")) != nil, @"a reply to another call");
    check(fault(bytes(@"80010002 00000001 6e 00000007 00")) != nil, @"a reply of another method");
    check(fault(bytes(@"00000001 6d 02 00000007 00")) != nil, @"a reply without a version");
    [frame replaceBytesInRange:NSMakeRange(3, 1) withBytes:"\3"];
    NSString *why = nil;
    StraitMessage *failure = [StraitDecodedReply(frame, @"m", 7, &why) messageIn:1];
    check([failure numberIn:1] == 16 && [[failure textIn:3] hasPrefix:@"the gateway refuses m"], @"a refused call");
}

/** Random bytes: each frame is a reply or has a fault, and nothing else happens. */
static void checkNoise(void) {
    srandom(1);
    for (int round = 0; round < 20000; round++) {
        NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
        NSMutableData *frame = reply(@"0c00000f00010c000000020b00010000000161000b000100000001620000");
        for (int change = random() % 4; change >= 0; change--) {
            uint8_t byte = random();
            [frame replaceBytesInRange:NSMakeRange(13 + random() % ([frame length] - 13), 1) withBytes:&byte];
        }
        fault(frame);
        [pool release];
    }
}

int main(void) {
    NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
    checkRoundTrip();
    checkLengths();
    checkDepthAndNumber();
    checkOtherReplies();
    checkNoise();
    printf("the codec refuses hostile bytes\n");
    [pool release];
    return 0;
}
